"""Joins one shard of documents with every judgement on it, and decides each document's fate.

The judgements are asked in a fixed order and the first that is against a document is its reason, so that the counts
of a funnel add up. Every join is on ids and strict: a table made from other documents, or one that is missing, is an
error.
"""

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from marin_exec import StepFailed
from steps.contract import check_same_shards, document_shards, read_documents
from steps.documents import NamedInput, check_column, join_dense, read_table, sparse_rows

KEPT = "kept"
FATES = ("exact_duplicate", "fuzzy_duplicate", "heuristics", "contaminated", "held_out", KEPT)
LEDGER_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("fate", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("cell", pa.string()),
        pa.field("topic", pa.int16()),
        pa.field("bucket", pa.int8()),
        pa.field("bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class AttributePaths:
    """Where the judgements lie; each has one subdirectory a source."""

    exact: str
    fuzzy: str
    heuristics: str
    contaminated: str
    heldout: str
    topics: str
    quality: str


def cell_name(topic: int, bucket: int) -> str:
    """Returns the name of a cell, e.g. "c03q4"."""
    return f"c{topic:02d}q{bucket}"


def judged_shards(source: NamedInput, paths: AttributePaths) -> list[str]:
    """Returns the shards of a source, after checking that each judgement has the same ones.

    Raises:
        StepFailed: a judgement lacks the source or a shard, or has one that the documents have not.
    """
    shards = document_shards(source.path)
    for name, path in asdict(paths).items():
        check_same_shards(shards, source.path, f"{path.rstrip('/')}/{source.name}", name)
    return shards


def judge_shard(source: NamedInput, shard: str, paths: AttributePaths) -> tuple[pa.Table, pa.Table]:
    """Returns the documents of a shard and their ledger, row for row.

    Args:
        source: the documents data set.
        shard: one of its shards.
        paths: the judgements on it.

    Returns:
        The documents (id, text, source_id, metadata) and a table of LEDGER_SCHEMA.

    Raises:
        StepFailed: a table lacks this source, this shard or a column, does not match the documents on id, or gives a
            topic or a quality bucket out of range.
    """
    documents = read_documents(source.path, shard)
    topics = _dense(documents, paths.topics, source.name, shard, ["topic"], "integer")["topic"].to_numpy()
    buckets = _dense(documents, paths.quality, source.name, shard, ["bucket"], "integer")["bucket"].to_numpy()
    _check_range("topic", topics, 0, 32_767, f"{paths.topics}/{source.name}/{shard}")
    _check_range("bucket", buckets, 0, 4, f"{paths.quality}/{source.name}/{shard}")
    fates, reasons = [KEPT] * documents.num_rows, [""] * documents.num_rows
    for fate, hits in reversed(_hits(documents, source.name, shard, paths).items()):  # the first has the last word
        for row, reason in hits.items():
            fates[row], reasons[row] = fate, reason
    cells = [
        cell_name(topic, bucket) if fate == KEPT else ""
        for fate, topic, bucket in zip(fates, topics.tolist(), buckets.tolist(), strict=True)
    ]
    columns = {
        "id": documents["id"].to_pylist(),
        "source": [source.name] * len(fates),
        "fate": fates,
        "reason": reasons,
        "cell": cells,
        "topic": topics,
        "bucket": buckets,
        "bytes": [len(text.encode()) for text in documents["text"].to_pylist()],
    }
    return documents, pa.table(columns, schema=LEDGER_SCHEMA)


def _hits(documents: pa.Table, source: str, shard: str, paths: AttributePaths) -> dict[str, dict[int, str]]:
    """What is against which rows, and why, in the order in which the judgements are asked."""
    ids = documents["id"].to_pylist()
    heuristics = _dense(documents, paths.heuristics, source, shard, ["keep", "reasons"], "boolean")
    decisions = zip(heuristics["keep"].to_pylist(), heuristics["reasons"].to_pylist(), strict=True)
    return {
        "exact_duplicate": _sparse(ids, paths.exact, source, shard, ["kept_source"]),
        "fuzzy_duplicate": _sparse(ids, paths.fuzzy, source, shard, ["kept_source", "kept_id", "containment"]),
        "heuristics": {row: reasons for row, (keep, reasons) in enumerate(decisions) if not keep},
        "contaminated": _sparse(ids, paths.contaminated, source, shard, ["benchmark", "max_overlap"]),
        "held_out": _sparse(ids, paths.heldout, source, shard, []),
    }


def first_reason(fate: str, reason: str) -> str:
    """Returns the short reason that a document is counted under: the rule, the kept copy's source, or the benchmark."""
    if fate == "heuristics":
        return reason.split(",")[0].split(":")[0].strip()
    if fate == "contaminated":
        return reason.rsplit(" max_overlap=", 1)[0]
    if fate == "fuzzy_duplicate":
        return reason.rsplit(" ", 2)[0]  # less the id and the containment; a source's name may have spaces
    return reason or fate


def _dense(
    documents: pa.Table, path: str, source: str, shard: str, columns: list[str], kind: Literal["boolean", "integer"]
) -> pa.Table:
    """The documents' ids with columns of a dense table; the first of them, which decides, is of a kind."""
    where = f"{path.rstrip('/')}/{source}"
    table = join_dense(documents.select(["id"]), read_table(where, shard, ["id", *columns]), f"{where}/{shard}")
    check_column(table, columns[0], kind, f"{where}/{shard}")
    return table


def _sparse(ids: list[str], path: str, source: str, shard: str, columns: list[str]) -> dict[int, str]:
    """Rows of the hits, with the columns joined to a reason: "code 0a1b... containment=0.95"."""
    where = f"{path.rstrip('/')}/{source}"
    table = read_table(where, shard, ["id", *columns])
    rows = sparse_rows(ids, table, f"{where}/{shard}")
    lines = [[_shown(name, value) for value in table[name].to_pylist()] for name in columns]
    return {row: " ".join(parts) for row, *parts in zip(rows, *lines, strict=True)}


def _shown(column: str, value: object) -> str:
    return f"{column}={value:.3f}" if isinstance(value, float) else str(value)


def _check_range(what: str, values: np.ndarray, low: int, high: int, where: str) -> None:
    wrong = np.flatnonzero((values < low) | (values > high))
    if wrong.size:
        raise StepFailed(f"{where}: {what} {values[wrong[0]]} in row {wrong[0]}; {low} .. {high} are allowed")
