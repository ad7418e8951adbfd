"""Finding benchmark features in documents: one pass over the text, whose matches are kept for judging.

Matches are few, so everything that needs all sources at once (how frequent a match is, thresholds) works on them, and
the text is read once. A match table has a row for every occurrence of a benchmark feature: `row` of the document,
`paragraph`, `usable` (features of that paragraph, matched or not), `feature` (the hash), and `run` (whether it is all of a
short record inside a longer paragraph, and so none of the paragraph's own features).
"""

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import ShardOut, StepFailed
from steps.contract import read_documents
from steps.decontaminate.benchmarks import (
    DocumentsBenchmark,
    PackageBenchmark,
    read_documents_benchmark,
    read_package_benchmark,
)
from steps.decontaminate.features import batches, features_of, runs_of
from steps.decontaminate.index import FeatureIndex, build_index, check_required
from steps.decontaminate.items import read_items
from steps.decontaminate.words import split_utf8
from steps.documents import write_table

MATCH_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("paragraph", pa.int64()),
        ("usable", pa.int64()),
        ("feature", pa.uint64()),
        ("run", pa.bool_()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """All benchmarks, and how features are made of them."""

    packages: tuple[PackageBenchmark, ...]
    items: tuple[str, ...]
    """Outputs of steps that read benchmarks."""
    documents: tuple[DocumentsBenchmark, ...]
    ngram_words: int
    shortest_words: int
    shortest_run_words: int


@functools.lru_cache(maxsize=1)
def load_index(suite: Suite) -> FeatureIndex:
    """Returns the index of a suite; a worker process makes it once for all its shards.

    Raises:
        ConfigError: a package is missing, or is not as declared.
        StepFailed: a benchmark is incomplete, or a required record gives no feature.
    """
    groups = [
        *(read_package_benchmark(benchmark) for benchmark in suite.packages),
        *(read_items(path) for path in suite.items),
        *(read_documents_benchmark(benchmark) for benchmark in suite.documents),
    ]
    seen: set[str] = set()
    for group in groups:
        names = {record.benchmark for record in group}
        if names & seen:
            raise StepFailed(
                f"benchmark {sorted(names & seen)} is in two suites; hits could not be told apart: rename it, or leave one out"
            )
        seen |= names
    records = [record for group in groups for record in group]
    index = build_index(records, suite.ngram_words, suite.shortest_words, suite.shortest_run_words)
    check_required(index)
    return index


@dataclass(frozen=True)
class ScanTask:
    """One shard of documents to scan."""

    source: str
    path: str
    shard: str
    suite: Suite


@dataclass(frozen=True)
class ScanCounts:
    documents: int
    skipped: int
    """Documents that are themselves records of a documents benchmark."""
    features: int
    num_bytes: int


def scan_shard(task: ScanTask, shard: ShardOut) -> ScanCounts:
    """Writes the matches of one shard as `evidence/matches/<source>/<shard>`."""
    index = load_index(task.suite)
    documents = read_documents(task.path, task.shard, ["id", "text"])
    own = {record.name for record in index.records if not record.keeps_frequent}
    rows = np.array([row for row, each in enumerate(documents["id"].to_pylist()) if each not in own], dtype=np.int64)
    data, offsets = utf8(documents["text"].take(pa.array(rows)))
    tables, features = [MATCH_SCHEMA.empty_table()], 0
    for first, last in batches(np.diff(offsets).tolist()):
        table, count = find_matches(index, data, offsets[first : last + 1], rows[first:last])
        tables.append(table)
        features += count
    write_table(shard.file(f"evidence/matches/{task.source}/{task.shard}"), pa.concat_tables(tables))
    return ScanCounts(
        documents=documents.num_rows,
        skipped=documents.num_rows - len(rows),
        features=features,
        num_bytes=int(offsets[-1] - offsets[0]),
    )


def utf8(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bytes of a string column, uint8, and int64[T + 1], where each text begins and the last one ends."""
    texts = pa.chunked_array(column, type=pa.string()).cast(pa.large_string()).combine_chunks()
    if not len(texts):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    _, offsets, data = texts.buffers()
    begins = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data or b"", dtype=np.uint8), begins


def find_matches(index: FeatureIndex, data: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> tuple[pa.Table, int]:
    """Returns the match table of T texts, and how many features they have in all.

    Args:
        index: what to look for.
        data: uint8: the texts in UTF-8.
        offsets: int64[T + 1]: where each begins and the last one ends.
        rows: int64[T]: the number that each goes by in the table.
    """
    features = features_of(split_utf8(data, offsets), index.ngram_words, index.shortest_words)
    found = index.find(features.hashes)
    hit = np.flatnonzero(found >= 0)
    texts, paragraphs, hashes = features.texts[hit], features.paragraphs[hit], features.hashes[hit]
    run = np.zeros(len(hit), dtype=bool)
    if index.run_lengths:
        runs = runs_of(features, index.run_lengths, index.run_bitmap)
        found = index.find(runs.hashes)
        hit = np.flatnonzero(found >= 0)
        hit = hit[index.is_run[found[hit]]]
        texts, paragraphs = np.append(texts, runs.texts[hit]), np.append(paragraphs, runs.paragraphs[hit])
        hashes, run = np.append(hashes, runs.hashes[hit]), np.append(run, np.ones(len(hit), dtype=bool))
    first_of_text = features.paragraphs[np.searchsorted(features.texts, texts)]
    usable = np.searchsorted(features.paragraphs, paragraphs, "right") - np.searchsorted(
        features.paragraphs, paragraphs
    )
    table = pa.table(
        {
            "row": rows[texts],
            "paragraph": paragraphs - first_of_text,  # counted from the text's first one with a feature
            "usable": usable,
            "feature": hashes,
            "run": run,
        },
        schema=MATCH_SCHEMA,
    )
    return table, len(features.hashes)
