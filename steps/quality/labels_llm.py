"""Make labels by asking a chat model to read excerpts by the rubric.

Every answer is a shard of its own and committed as soon as it is there: a step that dies, or whose server fails, asks
only for what is missing when it runs again. With `documents_per_shard` above 1 a crash can lose that many answers, and
the store holds as many fewer small files.

Documents are asked for in rounds. A round that leaves too many without a well-formed answer fails the step and is
published as `unanswered/round-N.json`; the next attempt takes up all answers of the rounds before and asks again for
those documents alone. What decides whether the answers suffice is no identity, so that it can be changed and no answer
is paid for twice.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import xxhash

from marin_exec import IdentityMismatch, InputPath, Out, StepFailed, added_default, kind, measured, runtime
from steps.config_checks import check_number, check_sources
from steps.documents import NamedInput
from steps.files import write_bytes
from steps.quality.chat import ChatModel, ReadShard, read_shard
from steps.quality.excerpts import Excerpt, read_excerpts, sample_excerpts
from steps.quality.labels import Label, write_labels

RUBRIC_DIGEST = "6eee14a5fafdf1c20ad47c5702249347"
"""xxh3-128 of steps/quality/rubric.md: the rubric is what the labels mean, so it is identity."""


@dataclass(frozen=True, kw_only=True)
class LabelsLlmConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets to draw excerpts from."""
    chat: ChatModel
    """Who reads."""
    count: int = 420
    """Documents to read, in equal shares of the sources."""
    seed: int = 0
    """Of the draw."""
    excerpts: Annotated[InputPath | None, added_default(None)] = None
    """Output of a "quality/next_labels" step, whose excerpts are read instead of a draw; `count` and `seed` mean nothing then."""
    rubric_digest: str = RUBRIC_DIGEST
    """xxh3-128 of steps/quality/rubric.md."""
    max_asks: Annotated[int, runtime] = 3
    """A malformed answer is shown to the model with what is wrong, and asked again, up to this many asks in a round."""
    documents_per_shard: int = 1
    """Answers committed together."""
    cpus_per_shard: Annotated[float, runtime] = 0.1
    """Waiting for a server takes little: 0.1 lets ten shards wait at once on each core."""
    max_unanswered_fraction: Annotated[float, runtime] = 0.05
    """More documents than this without a well-formed answer fail the step; answers had are kept."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "count", "max_asks", "documents_per_shard", low=1)
        check_number(self, "cpus_per_shard", above=0)
        check_number(self, "max_unanswered_fraction", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class LabelsLlmResult:
    documents: int
    """Documents with a label."""
    unanswered: int
    """Documents whose answers all were malformed; listed in unanswered.jsonl."""
    malformed_answers: Annotated[int, measured]
    """Malformed answers in all, of every round, those that were put right when asked again included."""
    documents_by_source: dict[str, int]
    """Labelled documents by source."""
    score_counts: dict[str, int]
    """Labels by score."""
    content_type_counts: dict[str, int]
    """Labels by content type."""


def read_rubric(digest: str) -> str:
    """Returns the rubric's text.

    Raises:
        IdentityMismatch: the file is not the one whose digest the config states.
    """
    content = (Path(__file__).parent / "rubric.md").read_bytes()
    found = xxhash.xxh3_128_hexdigest(content)
    if found != digest:
        raise IdentityMismatch(
            f"steps/quality/rubric.md: its digest is {found}, the config states {digest}; labels by another rubric mean "
            f"something else: restore the file, or state the new digest"
        )
    return content.decode()


def _round(config: LabelsLlmConfig, number: int, excerpts: list[Excerpt], rubric: str) -> dict[str, ReadShard]:
    """The shards of one round by name: a function of the config and of what the rounds before left unanswered."""
    size = config.documents_per_shard
    return {
        f"round-{number}/{start // size:06d}": ReadShard(
            excerpts=tuple(excerpts[start : start + size]), chat=config.chat, rubric=rubric, max_asks=config.max_asks
        )
        for start in range(0, len(excerpts), size)
    }


def _too_many(config: LabelsLlmConfig, unanswered: int, documents: int) -> bool:
    return unanswered == documents or unanswered > config.max_unanswered_fraction * documents


def _ask_in_rounds(config: LabelsLlmConfig, excerpts: list[Excerpt], rubric: str, out: Out) -> list[dict[str, Any]]:
    """Returns all readings, one a document and round: those of earlier attempts' rounds, and of one more if needed.

    Raises:
        StepFailed: too many documents are without a well-formed answer after it.
    """
    readings: list[dict[str, Any]] = []
    answered: set[str] = set()
    missing = excerpts
    ended = len(out.milestones("unanswered/"))
    for number in range(ended + 1):
        if number == ended and number and not _too_many(config, len(missing), len(excerpts)):
            return readings  # more may be missing than the attempts before were allowed
        shards = out.map_shards(read_shard, _round(config, number, missing, rubric), cpus=config.cpus_per_shard)
        readings += [reading for shard in shards.values() for reading in shard]
        answered = {reading["id"] for reading in readings if reading["label"]}
        missing = [excerpt for excerpt in missing if excerpt.id not in answered]
    if _too_many(config, len(missing), len(excerpts)):
        problems = _problems(readings, {excerpt.id for excerpt in missing})
        name = f"unanswered/round-{ended}.json"
        write_bytes(out.file(name), json.dumps(problems).encode())
        out.publish(name)
        raise StepFailed(
            f"{len(missing)} of {len(excerpts)} documents have no well-formed answer from {config.chat.model}, the first "
            f"problem: {next(iter(problems.values()))}; the {len(answered)} answers are kept. Run it again to ask for "
            f"the others alone, with a higher max_asks if need be, or raise max_unanswered_fraction"
        )
    return readings


def _problems(readings: list[dict[str, Any]], ids: set[str]) -> dict[str, str]:
    """What was wrong with the last answer for each of these documents, by id."""
    return {reading["id"]: reading["problem"] for reading in readings if reading["id"] in ids}


@kind("quality/labels_llm", version=1)
def labels_llm(config: LabelsLlmConfig, out: Out) -> LabelsLlmResult:
    """Writes `labels.jsonl` and `unanswered.jsonl`.

    Raises:
        ConfigError: there are fewer documents than `count`, or no excerpts where they should be.
        IdentityMismatch: the rubric is not the one stated.
        StepFailed: the server refused or did not answer, or too many answers were malformed. Answers had are kept.
    """
    rubric = read_rubric(config.rubric_digest)
    if config.excerpts is None:
        paths = {source.name: source.path for source in config.documents}
        excerpts = sample_excerpts(paths, config.count, config.seed)
    else:
        excerpts = read_excerpts(f"{config.excerpts}/excerpts.jsonl")
    readings = _ask_in_rounds(config, excerpts, rubric, out)
    labels = [Label(**reading["label"]) for reading in readings if reading["label"]]
    unanswered = _problems(readings, {excerpt.id for excerpt in excerpts} - {label.id for label in labels})
    write_labels(out.file("labels.jsonl"), labels)
    lines = [json.dumps({"id": each, "problem": problem}) + "\n" for each, problem in unanswered.items()]
    write_bytes(out.file("unanswered.jsonl"), "".join(lines).encode())
    source_of = {excerpt.id: excerpt.source for excerpt in excerpts}
    return LabelsLlmResult(
        documents=len(labels),
        unanswered=len(unanswered),
        malformed_answers=sum(reading["malformed"] for reading in readings),
        documents_by_source=dict(sorted(Counter(source_of[label.id] for label in labels).items())),
        score_counts={str(score): count for score, count in sorted(Counter(label.score for label in labels).items())},
        content_type_counts=dict(sorted(Counter(label.content_type for label in labels).items())),
    )
