"""Score every document with the quality student, and sort them into five buckets by fixed edges."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from marin_exec import InputPath, Out, ShardOut, StepFailed, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, join_dense, read_table, write_table
from steps.embed.vectors import scale_in, vectors_of

_NUM_BUCKETS = 5


@dataclass(frozen=True, kw_only=True)
class ScoresConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets."""
    embeddings: InputPath
    """Output of the "embed/documents" step that the classifier was fitted on."""
    classifier: InputPath
    """Output of a "quality/classifier" step."""
    min_spread: float = 0.05
    """A source whose scores have a smaller standard deviation is named in `uninformative_sources`."""

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
    mean_by_type: dict[str, float]
    """Mean score by the content type that the student finds."""
    spread_by_type: dict[str, float]
    """Standard deviation of scores by content type: near 0 the score says nothing within the type."""
    uninformative_sources: tuple[str, ...]
    """Sources (of two documents or more) whose spread is below `min_spread`: there the score does not choose."""
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


def score_shard(item: ScoreShard, shard: ShardOut) -> dict[str, Any]:
    """Scores one shard; returns bucket counts, and count, sum and sum of squares of the scores by content type."""
    from steps.quality.calibration import buckets, calibrated
    from steps.quality.features import read_blocks
    from steps.quality.student import load_student

    student, curves = load_student(item.classifier)
    documents = read_documents(item.documents, item.shard, columns=["id", "text"])
    where = f"{item.embeddings}/{item.shard}"
    embeddings = read_table(item.embeddings, item.shard)
    join_dense(documents, embeddings, where)  # for its check of the ids
    vectors = vectors_of(embeddings, where)
    if vectors.shape[1] != student.dimensions or scale_in(embeddings, where) != student.scale:
        raise StepFailed(
            f"{where}: embeddings of {vectors.shape[1]} dimensions and scale {scale_in(embeddings, where)}; the student was "
            f"fitted on {student.dimensions} and {student.scale}: give both steps the same embeddings"
        )
    raw, types = student.predict(read_blocks(documents["text"].to_pylist(), vectors, student.settings))
    scores = calibrated(raw, types, curves)
    bucket = buckets(scores)
    table = pa.table({"id": documents["id"], "score": pa.array(scores), "bucket": pa.array(bucket)})
    write_table(shard.file(item.relative), table)
    by_type = {}
    for name in sorted(set(types)):
        chosen = scores[np.array(types) == name].astype(np.float64)
        by_type[name] = [len(chosen), float(chosen.sum()), float(np.square(chosen).sum())]
    return {"buckets": np.bincount(bucket, minlength=_NUM_BUCKETS).tolist(), "by_type": by_type}


def _moments(sums: list[list[float]]) -> tuple[float, float]:
    """Returns mean and standard deviation from rows of (count, sum, sum of squares)."""
    count, total, squares = np.array(sums, dtype=np.float64).reshape(-1, 3).sum(axis=0)
    mean = total / max(1.0, count)
    return round(float(mean), 4), round(float(np.sqrt(max(0.0, squares / max(1.0, count) - mean * mean))), 4)


def _shares(counts: np.ndarray) -> dict[str, float]:
    return {str(bucket): round(float(count / max(1, counts.sum())), 4) for bucket, count in enumerate(counts)}


@kind("quality/scores", version=1)
def scores(config: ScoresConfig, out: Out) -> ScoresResult:
    """Writes `<source>/part-NNNNN.parquet` (id, score float32 in 0..1, bucket int8 0..4), dense.

    Raises:
        StepFailed: the embeddings belong to other documents, or to another encoder than the student's.
    """
    names = [source.name for source in config.documents]
    started = time.monotonic()
    items = {
        f"{source.name}/{shard}": ScoreShard(
            documents=source.path,
            embeddings=f"{config.embeddings}/{source.name}",
            shard=shard,
            relative=f"{source.name}/{shard}",
            classifier=config.classifier,
        )
        for source in config.documents
        for shard in document_shards(source.path)
    }
    results = out.map_shards(score_shard, items)
    counts = {name: np.zeros(_NUM_BUCKETS, dtype=np.int64) for name in names}
    sums: dict[str, list[list[float]]] = {name: [] for name in names}
    type_sums: dict[str, list[list[float]]] = {}
    for key, each in results.items():
        source = key.rpartition("/")[0]
        counts[source] += np.array(each["buckets"])
        sums[source] += each["by_type"].values()
        for content_type, row in each["by_type"].items():
            type_sums.setdefault(content_type, []).append(row)
    spread = {name: _moments(rows)[1] for name, rows in sums.items()}
    total = np.sum(list(counts.values()), axis=0)
    return ScoresResult(
        documents=int(total.sum()),
        bucket_shares=_shares(total),
        bucket_shares_by_source={name: _shares(each) for name, each in counts.items()},
        mean_by_source={name: _moments(rows)[0] for name, rows in sums.items()},
        spread_by_source=spread,
        mean_by_type={name: _moments(rows)[0] for name, rows in sorted(type_sums.items())},
        spread_by_type={name: _moments(rows)[1] for name, rows in sorted(type_sums.items())},
        uninformative_sources=tuple(
            name for name in names if counts[name].sum() > 1 and spread[name] < config.min_spread
        ),
        seconds=time.monotonic() - started,
    )
