"""Make labels by asking a chat model to read excerpts by the rubric.

Every answer is a shard of its own and committed as soon as it is there: a step that dies, or whose server fails, asks
only for what is missing when it runs again. Nothing is asked twice, short of a crash between an answer and its commit.
With `documents_per_shard` above 1 a crash can lose that many answers, and the store holds as many fewer small files.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import xxhash

from marin_exec import ConfigError, IdentityMismatch, Out, ShardOut, StepFailed, kind, runtime
from steps.documents import NamedInput, open_file
from steps.embed.endpoint import Patience, api_headers, post_json
from steps.quality.excerpts import Excerpt, sample_excerpts
from steps.quality.labels import Label, parse_judgement, write_labels

RUBRIC_DIGEST = "6eee14a5fafdf1c20ad47c5702249347"
"""xxh3-128 of steps/quality/rubric.md: the rubric is what the labels mean, so it is identity."""


@dataclass(frozen=True, kw_only=True)
class ChatModel:
    """A chat completion endpoint in OpenAI's form (vLLM, llama.cpp, TGI, OpenAI and others serve it)."""

    model: str
    """Model name as the server knows it."""
    url: Annotated[str, runtime]
    """What comes before `/chat/completions`, e.g. "http://localhost:8000/v1"."""
    temperature: float = 0.0
    """0 asks for the likeliest answer."""
    max_tokens: int = 400
    """Of one answer, thoughts included where the model writes them."""
    api_key_env: Annotated[str, runtime] = ""
    """Environment variable that holds the key; empty sends none."""
    max_attempts: Annotated[int, runtime] = 8
    """Tries of one request before the step fails."""
    backoff_seconds: Annotated[float, runtime] = 1.0
    """Wait before the second try; doubled for each further one, up to two minutes. `Retry-After` is honoured."""
    timeout_seconds: Annotated[float, runtime] = 120.0
    """For one request."""


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
    rubric_digest: str = RUBRIC_DIGEST
    """xxh3-128 of steps/quality/rubric.md."""
    max_asks: int = 3
    """A malformed answer is shown to the model with what is wrong, and asked again, up to this many asks in all."""
    documents_per_shard: int = 1
    """Answers committed together."""
    cpus_per_shard: Annotated[float, runtime] = 0.1
    """Waiting for a server takes little: this many shards wait at once for each core."""
    max_unanswered_fraction: float = 0.05
    """More documents than this without a well-formed answer fail the step."""


@dataclass(frozen=True, kw_only=True)
class LabelsLlmResult:
    documents: int
    """Documents with a label."""
    unanswered: int
    """Documents whose answers all were malformed; listed in unanswered.jsonl."""
    malformed_answers: int
    """Malformed answers in all, those that were put right when asked again included."""
    documents_by_source: dict[str, int]
    """Labelled documents by source."""
    score_counts: dict[str, int]
    """Labels by score."""
    content_type_counts: dict[str, int]
    """Labels by content type."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one document's reading came to."""

    id: str
    label: Label | None
    """None if no answer was well-formed."""
    malformed: int
    """Malformed answers before it."""
    problem: str
    """What was wrong with the last malformed answer; empty if none was."""


@dataclass(frozen=True, kw_only=True)
class ReadShard:
    """Excerpts that one task reads."""

    excerpts: tuple[Excerpt, ...]
    chat: ChatModel
    rubric: str
    max_asks: int


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


def parse_answer(text: str) -> tuple[int, str, str]:
    """Returns (score, content type, reason) from a model's answer: its last JSON object, whatever stands around it.

    Raises:
        ValueError: there is none, or it breaks the rubric's form; the message says how.
    """
    decoder = json.JSONDecoder()
    found: Any = None
    place = text.find("{")
    while place >= 0:
        try:
            found, end = decoder.raw_decode(text, place)
            place = text.find("{", end)
        except json.JSONDecodeError:
            place = text.find("{", place + 1)
    if found is None:
        raise ValueError(f"no JSON object in {text[:80]!r}")
    return parse_judgement(found)


def read_excerpt(client: httpx.Client, item: ReadShard, excerpt: Excerpt) -> Reading:
    """Asks for one excerpt's label, again with the problem named after a malformed answer.

    Raises:
        StepFailed: the server refused, did not answer, or answered in another form than OpenAI's.
    """
    url = f"{item.chat.url.rstrip('/')}/chat/completions"
    patience = Patience(
        max_attempts=item.chat.max_attempts,
        backoff_seconds=item.chat.backoff_seconds,
        timeout_seconds=item.chat.timeout_seconds,
    )
    messages = [{"role": "system", "content": item.rubric}, {"role": "user", "content": excerpt.excerpt}]
    problem = ""
    for asked in range(item.max_asks):
        payload = {
            "model": item.chat.model,
            "messages": messages,
            "temperature": item.chat.temperature,
            "max_tokens": item.chat.max_tokens,
        }
        text = _answer_text(post_json(client, url, payload, patience), url)
        try:
            score, content_type, reason = parse_answer(text)
        except ValueError as error:
            problem = str(error)
            # Only the last malformed answer goes along, so that the request does not grow with every ask.
            again = f"That answer could not be used: {problem}. Answer with the one JSON object of the rubric and nothing else."
            messages = [*messages[:2], {"role": "assistant", "content": text}, {"role": "user", "content": again}]
            continue
        label = Label(id=excerpt.id, score=score, content_type=content_type, reason=reason, reader=item.chat.model)
        return Reading(id=excerpt.id, label=label, malformed=asked, problem=problem)
    return Reading(id=excerpt.id, label=None, malformed=item.max_asks, problem=problem)


def _answer_text(answer: Any, url: str) -> str:
    try:
        return answer["choices"][0]["message"]["content"] or ""
    except (KeyError, IndexError, TypeError) as error:
        raise StepFailed(
            f"POST {url}: the answer has no choices[0].message.content, but {str(answer)[:200]}"
        ) from error


def read_shard(item: ReadShard, shard: ShardOut) -> list[dict[str, Any]]:
    """Reads the excerpts of one shard; returns the readings."""
    with httpx.Client(headers=api_headers(item.chat.api_key_env)) as client:
        readings = [read_excerpt(client, item, excerpt) for excerpt in item.excerpts]
    shard.progress(f"read {len(readings)} excerpts")
    return [asdict(reading) for reading in readings]


@kind("quality/labels_llm", version=1)
def labels_llm(config: LabelsLlmConfig, out: Out) -> LabelsLlmResult:
    """Writes `labels.jsonl` and `unanswered.jsonl`.

    Raises:
        ConfigError: there are fewer documents than `count`, or a setting is out of range.
        IdentityMismatch: the rubric is not the one stated.
        StepFailed: the server refused or did not answer, or too many answers were malformed. Answers had are kept.
    """
    if config.max_asks < 1 or config.documents_per_shard < 1:
        raise ConfigError(f"max_asks {config.max_asks}, documents_per_shard {config.documents_per_shard}: from 1 up")
    rubric = read_rubric(config.rubric_digest)
    excerpts = sample_excerpts({source.name: source.path for source in config.documents}, config.count, config.seed)
    size = config.documents_per_shard
    items = {
        f"{start // size:06d}": ReadShard(
            excerpts=tuple(excerpts[start : start + size]), chat=config.chat, rubric=rubric, max_asks=config.max_asks
        )
        for start in range(0, len(excerpts), size)
    }
    shards = out.map_shards(read_shard, items, cpus=config.cpus_per_shard)
    readings = [reading for shard in shards.values() for reading in shard]
    labels = [Label(**reading["label"]) for reading in readings if reading["label"]]
    unanswered = [reading for reading in readings if not reading["label"]]
    if not labels or len(unanswered) > config.max_unanswered_fraction * len(readings):
        raise StepFailed(
            f"{len(unanswered)} of {len(readings)} documents have no well-formed answer from {config.chat.model}, the first "
            f"problem: {unanswered[0]['problem']}; use a model that follows the rubric's form, or raise max_asks (answers had "
            f"are kept)"
        )
    write_labels(out.file("labels.jsonl"), labels)
    lines = [json.dumps({"id": each["id"], "problem": each["problem"]}) + "\n" for each in unanswered]
    with open_file(out.file("unanswered.jsonl"), "wb") as file:
        file.write("".join(lines).encode())
    source_of = {excerpt.id: excerpt.source for excerpt in excerpts}
    return LabelsLlmResult(
        documents=len(labels),
        unanswered=len(unanswered),
        malformed_answers=sum(reading["malformed"] for reading in readings),
        documents_by_source=dict(sorted(Counter(source_of[label.id] for label in labels).items())),
        score_counts={str(score): count for score, count in sorted(Counter(label.score for label in labels).items())},
        content_type_counts=dict(sorted(Counter(label.content_type for label in labels).items())),
    )
