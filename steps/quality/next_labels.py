"""Choose which documents to label next, and write their excerpts for readers.

The choice (steps/quality/choice.py) is made among candidates (steps/quality/candidates.py), and is a function of the config
and of the documents, not of how they lie in shards. Some are drawn by lot instead, in equal shares of the sources: chosen ones are
harder than most, and figures held out on them alone would be too low.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, read_table, write_table
from steps.embed.vectors import read_array, vectors_of
from steps.quality.candidates import AskShard, CommitteeItem, ask_shard, fit_shard, shortlist
from steps.quality.choice import Candidates, choose
from steps.quality.excerpts import Excerpt, draw_ids, excerpt_of, write_excerpts
from steps.quality.windows import Windows
from steps.seeded_ranks import draw_rank


@dataclass(frozen=True, kw_only=True)
class NextLabelsConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets. A document of several sources counts for the first named."""
    embeddings: InputPath
    """Output of an "embed/documents" step on them."""
    labels: InputPath
    """The labels that there are: output of a "quality/labels_file" or "quality/labels_llm" step."""
    classifier: InputPath
    """The student fitted on them: output of a "quality/classifier" step."""
    count: int = 200
    """Documents to label."""
    random_fraction: float = 0.2
    """Of them, the share that is drawn by lot."""
    never_show: tuple[str, ...] = ()
    """Sources that nobody may read, such as those with personal data: none of their documents is chosen."""
    windows: Windows | None = None
    """The classifier's."""
    members: int = 16
    """Students of the committee."""
    candidates_per_source: int = 400
    """Documents of each source among which the choice is made: half the least sure, half by lot."""
    seed: int = 0
    """Of the committee's resamples, and of lots."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "count", low=1)
        check_number(self, "random_fraction", low=0, high=1)
        check_number(self, "seed", low=0)
        check_number(self, "members", low=2)
        check_number(self, "candidates_per_source", low=2, high=4_000)  # a shard returns so many lines
        names = [source.name for source in self.documents]
        strangers = [name for name in self.never_show if name not in names]
        if strangers:
            raise ConfigError(
                f"NextLabelsConfig.never_show: {strangers} are no sources; those of `documents` are {names}"
            )


@dataclass(frozen=True, kw_only=True)
class NextLabelsResult:
    labelled: int
    """Documents that have a label; none of them is chosen."""
    candidates: int
    """Documents among which the choice was made."""
    chosen: int
    """By uncertainty, coverage and novelty."""
    drawn: int
    """By lot."""
    by_source: dict[str, int]
    """Chosen and drawn ones by source."""
    by_type: dict[str, int]
    """Chosen ones by content type, as the student finds it."""
    mean_uncertainty: float
    """Of the chosen, on the labels' scale from 1 to 5."""
    mean_uncertainty_drawn: float
    """Of those drawn by lot among the candidates, to compare."""
    seconds: Annotated[float, measured]
    """Wall time."""


def _candidates(config: NextLabelsConfig, committee: str, out: Out) -> list[dict[str, Any]]:
    """Returns the candidates of all sources that may be shown, by source as named and id, each document once."""
    shown = [source for source in config.documents if source.name not in config.never_show]
    items = {
        f"ask/{source.name}/{shard}": AskShard(
            source=source.name,
            documents=source.path,
            embeddings=f"{config.embeddings}/{source.name}",
            shard=shard,
            labels=config.labels,
            classifier=config.classifier,
            committee=committee,
            windows=config.windows,
            wanted=config.candidates_per_source,
            seed=config.seed,
        )
        for source in shown
        for shard in document_shards(source.path)
    }
    by_source: dict[str, dict[str, dict[str, Any]]] = {source.name: {} for source in shown}
    for rows in out.map_shards(ask_shard, items).values():
        for row in rows:
            by_source[row["source"]][row["id"]] = row
    taken: set[str] = set()
    found = []
    for rows in by_source.values():
        fresh = [row for each, row in rows.items() if each not in taken]
        found += shortlist(fresh, config.candidates_per_source, config.seed)
        taken.update(rows)
    return found


def _of_candidates(paths: dict[str, str], rows: list[dict[str, Any]], read: Callable[..., list[Any]]) -> list[Any]:
    """Returns something of each row's document; `read(path, shard)` gives pairs of id and value, a shard at a time."""
    wanted = {row["id"] for row in rows}
    found: dict[str, Any] = {}
    for source, shard in sorted({(row["source"], row["shard"]) for row in rows}):
        found.update({each: value for each, value in read(paths[source], shard) if each in wanted})
    return [found[row["id"]] for row in rows]


def _vectors(path: str, shard: str) -> list[tuple[str, np.ndarray]]:
    table = read_table(path, shard)
    return list(zip(table["id"].to_pylist(), vectors_of(table, f"{path}/{shard}"), strict=True))


def _texts(path: str, shard: str) -> list[tuple[str, str]]:
    table = read_documents(path, shard, columns=["id", "text"])
    return list(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))


@kind("quality/next_labels", version=1)
def next_labels(config: NextLabelsConfig, out: Out) -> NextLabelsResult:
    """Writes `excerpts.jsonl` (id, source, excerpt), to be read by the rubric, and `choice.parquet`, what spoke for each.

    `choice.parquet`, in order of choice: id, source, content_type (the student's), uncertainty, coverage, novelty (0 for those by
    lot), chosen_by ("uncertainty" or "lot"). `quality/labels_llm` reads the excerpts (`excerpts=`).

    Raises:
        StepFailed: there is no document to choose, or the classifier reads other embeddings or windows.
    """
    started = time.monotonic()
    fitted = CommitteeItem(
        documents=config.documents,
        embeddings=config.embeddings,
        labels=config.labels,
        classifier=config.classifier,
        windows=config.windows,
        members=config.members,
        seed=config.seed,
    )
    labels = out.map_shards(fit_shard, {"committee": fitted})["committee"]
    rows = _candidates(config, f"{out.path}/committee.npy", out)
    if not rows:
        raise StepFailed("no document to choose: all that may be shown have a label; give more documents")
    paths = {source.name: source.path for source in config.documents}
    embedded = {name: f"{config.embeddings}/{name}" for name in paths}
    candidates = Candidates(
        ids=[row["id"] for row in rows],
        sources=np.array([row["source"] for row in rows]),
        content_types=np.array([row["content_type"] for row in rows]),
        uncertainty=np.array([row["uncertainty"] for row in rows]),
        vectors=np.stack(_of_candidates(embedded, rows, _vectors)),
    )
    count = min(config.count, len(rows))
    lots = _by_lot(rows, int(count * config.random_fraction), config.seed)
    rest = np.array([row for row, each in enumerate(rows) if each["id"] not in lots], dtype=int)
    choice = choose(
        candidates.take(rest),
        read_array(f"{out.path}/labelled_vectors.npy"),
        labels["by_source"],
        labels["by_type"],
        count=count - len(lots),
        seed=config.seed,
    )
    chosen = [rows[row] for row in rest[choice.rows]]
    drawn = [row for row in rows if row["id"] in lots]
    table = pa.table(
        {
            **{key: [row[key] for row in (*chosen, *drawn)] for key in ("id", "source", "content_type", "uncertainty")},
            "coverage": [*choice.coverage, *[0.0] * len(drawn)],
            "novelty": [*choice.novelty, *[0.0] * len(drawn)],
            "chosen_by": ["uncertainty"] * len(chosen) + ["lot"] * len(drawn),
        }
    )
    write_table(out.file("choice.parquet"), table)
    # Readers see them mixed: one who knew which were hard would read those otherwise.
    mixed = sorted((*chosen, *drawn), key=lambda row: draw_rank(config.seed, row["id"]))
    texts = _of_candidates(paths, mixed, _texts)
    write_excerpts(
        out.file("excerpts.jsonl"),
        [Excerpt(row["id"], row["source"], excerpt_of(text)) for row, text in zip(mixed, texts, strict=True)],
    )
    return NextLabelsResult(
        labelled=labels["labelled"],
        candidates=len(rows),
        chosen=len(chosen),
        drawn=len(drawn),
        by_source=dict(sorted(Counter(row["source"] for row in mixed).items())),
        by_type=dict(sorted(Counter(row["content_type"] for row in chosen).items())),
        mean_uncertainty=_mean_uncertainty(chosen),
        mean_uncertainty_drawn=_mean_uncertainty(drawn),
        seconds=time.monotonic() - started,
    )


def _by_lot(rows: list[dict[str, Any]], count: int, seed: int) -> set[str]:
    """Returns the ids of `count` candidates: of each source, in equal shares, those of the lowest ranks.

    The candidates of the lowest ranks are among a source's whole; half of what is on a shortlist is there for that.
    """
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row["source"], []).append(row["id"])
    return {each for _, each in draw_ids(ids, count, seed)}


def _mean_uncertainty(rows: list[dict[str, Any]]) -> float:
    return round(sum(row["uncertainty"] for row in rows) / max(1, len(rows)), 4)
