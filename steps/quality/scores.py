"""Score every document with the quality student, and sort them into five buckets by fixed edges."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from marin_exec import InputPath, Out, ShardOut, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, join_dense, read_table, write_table
from steps.embed.vectors import vectors_of
from steps.files import write_json
from steps.quality.calibration import buckets, calibrated
from steps.quality.spread import Tally, bucket_shares, tally_scores, within_type_spread
from steps.quality.student import load_student
from steps.quality.windows import NAMES, Windows, read_documents_or_windows


@dataclass(frozen=True, kw_only=True)
class ScoresConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets."""
    embeddings: InputPath
    """Output of the "embed/documents" step that the classifier was fitted on, or by the same encoder."""
    classifier: InputPath
    """Output of a "quality/classifier" step."""
    min_spread: float = 0.05
    """A source whose scores have a smaller standard deviation within content types is named in `uninformative_sources`."""
    windows: Windows | None = None
    """The classifier's."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "min_spread", low=0)


@dataclass(frozen=True, kw_only=True)
class ScoresResult:
    documents: int
    """Rows written."""
    bucket_shares: dict[str, float]
    """Share of documents in bucket 0 (worst) to 4 (best)."""
    bucket_shares_by_source: dict[str, dict[str, float]]
    """The same in each source."""
    mean_by_source: dict[str, float]
    """Mean score in each source."""
    spread_by_source: dict[str, float]
    """Standard deviation of scores in each source."""
    spread_within_types_by_source: dict[str, float]
    """The same after each content type's mean in the source is taken off: near 0 the score is the type's name."""
    mean_by_type: dict[str, float]
    """Mean score by the content type that the student finds."""
    spread_by_type: dict[str, float]
    """Standard deviation of scores by content type: near 0 the score says nothing within the type."""
    uninformative_sources: tuple[str, ...]
    """Sources (of two documents or more) whose spread within types is below `min_spread`: there the score does not choose."""
    several_windows: int
    """Documents read through three windows."""
    uneven: int
    """Of them, those with two windows or more buckets apart: the whole is not like its best part."""
    seconds: Annotated[float, measured]
    """Wall time."""


@dataclass(frozen=True, kw_only=True)
class ScoreShard:
    """One shard of one source."""

    documents: str
    """Documents data set."""
    embeddings: str
    """Its embedding table."""
    shard: str
    """File name in both."""
    relative: str
    """Where the scores go in the output."""
    classifier: str
    windows: Windows | None


def score_shard(item: ScoreShard, shard: ShardOut) -> dict[str, Any]:
    """Scores one shard; returns its tallies by content type, and its documents of several windows and uneven ones."""
    saved = load_student(item.classifier)
    documents = read_documents(item.documents, item.shard, columns=["id", "text"])
    where = f"{item.embeddings}/{item.shard}"
    embeddings = read_table(item.embeddings, item.shard)
    join_dense(documents, embeddings, where)  # for its check of the ids
    vectors, texts = vectors_of(embeddings, where), documents["text"].to_pylist()
    saved.check_reading(embeddings, item.windows.characters if item.windows else None, where)
    blocks = read_documents_or_windows(texts, vectors, saved, item.windows, where)
    found = saved.student.predict(blocks)
    scores = calibrated(found.raw, found.content_types, saved.curves)
    types = pa.array(found.content_types, type=pa.string())
    columns = {"id": documents["id"], "score": scores, "bucket": buckets(scores), "content_type": types}
    several = blocks.windows > 1
    uneven = np.zeros(len(texts), dtype=bool)
    if item.windows is not None:
        # A document of one window is that window three times, so that every row has all three.
        rows = blocks.starts[:, None] + np.arange(len(NAMES)) * several[:, None]
        by_window = [calibrated(found.by_window[each], found.content_types, saved.curves) for each in rows.T]
        columns |= {f"score_{name}": each for name, each in zip(NAMES, by_window, strict=True)}
        uneven = np.ptp([buckets(each) for each in by_window], axis=0) >= 2
    write_table(shard.file(item.relative), pa.table(columns))
    return {
        "by_type": tally_scores(scores, found.content_types),
        "several_windows": int(several.sum()),
        "uneven": int(uneven.sum()),
    }


@kind("quality/scores", version=2)
def scores(config: ScoresConfig, out: Out) -> ScoresResult:
    """Writes `<source>/part-NNNNN.parquet` (id, score float32 in 0..1, bucket int8 0..4, content_type), dense, and counts.

    With windows the tables also have score_begin, score_middle and score_end, float32: the scores of the three windows, on
    the curve of the document's content type. `score` is the mean of their raw scores on that curve. `histograms.json` has
    the counts of scores in twenty equal bins, by source and content type.

    Raises:
        StepFailed: the embeddings belong to other documents, or to another encoder than the student's, or the windows
            are not those it was fitted through.
    """
    started = time.monotonic()
    items = {
        f"{source.name}/{shard}": ScoreShard(
            documents=source.path,
            embeddings=f"{config.embeddings}/{source.name}",
            shard=shard,
            relative=f"{source.name}/{shard}",
            classifier=config.classifier,
            windows=config.windows,
        )
        for source in config.documents
        for shard in document_shards(source.path)
    }
    results = out.map_shards(score_shard, items)
    tallies: dict[str, Tally] = {source.name: Tally() for source in config.documents}
    for key, each in results.items():
        tallies[key.rpartition("/")[0]].add(each["by_type"])
    total = Tally()
    for tally in tallies.values():
        total.add(tally.by_type)
    write_json(out.file("histograms.json"), {name: tally.histograms() for name, tally in tallies.items()})
    within = {name: within_type_spread(tally) for name, tally in tallies.items()}
    return ScoresResult(
        documents=total.documents,
        bucket_shares=bucket_shares(total),
        bucket_shares_by_source={name: bucket_shares(tally) for name, tally in tallies.items()},
        mean_by_source={name: tally.moments()[0] for name, tally in tallies.items()},
        spread_by_source={name: tally.moments()[1] for name, tally in tallies.items()},
        spread_within_types_by_source=within,
        mean_by_type={name: total.moments(name)[0] for name in sorted(total.by_type)},
        spread_by_type={name: total.moments(name)[1] for name in sorted(total.by_type)},
        uninformative_sources=tuple(
            name for name, tally in tallies.items() if tally.documents > 1 and within[name] < config.min_spread
        ),
        several_windows=sum(each["several_windows"] for each in results.values()),
        uneven=sum(each["uneven"] for each in results.values()),
        seconds=time.monotonic() - started,
    )
