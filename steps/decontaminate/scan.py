"""Finding benchmark features in documents: one pass over the text, whose matches are kept for judging.

Matches are few, so everything that needs all sources at once (how frequent a match is, thresholds) works on them, and
the text is read once. A match table has a row for every occurrence of a benchmark feature: `row` of the document,
`paragraph`, `usable` (features of that paragraph, matched or not) and `feature` (the hash).
"""

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import ShardOut
from steps.decontaminate.benchmarks import (
    DocumentsBenchmark,
    PackageBenchmark,
    check_required,
    read_documents_benchmark,
    read_package_benchmark,
)
from steps.decontaminate.features import FeatureIndex, batches, build_index, extract_features
from steps.documents import read_table, write_table

MATCH_SCHEMA = pa.schema(
    [("row", pa.int64()), ("paragraph", pa.int64()), ("usable", pa.int64()), ("feature", pa.uint64())]
)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """All benchmarks, and how features are made of them."""

    packages: tuple[PackageBenchmark, ...]
    documents: tuple[DocumentsBenchmark, ...]
    ngram_words: int
    shortest_words: int


@functools.lru_cache(maxsize=1)
def load_index(suite: Suite) -> FeatureIndex:
    """Returns the index of a suite; a worker process makes it once for all its shards.

    Raises:
        ConfigError: a package is missing, or is not as declared.
        StepFailed: a benchmark is incomplete, or a required record gives no feature.
    """
    records = [record for benchmark in suite.packages for record in read_package_benchmark(benchmark)]
    records += [record for benchmark in suite.documents for record in read_documents_benchmark(benchmark)]
    index = build_index(records, suite.ngram_words, suite.shortest_words)
    check_required(index, suite.packages, suite.documents)
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
    documents = read_table(task.path, task.shard, ["id", "text"])
    own = {record.name for record in index.records if not record.keeps_frequent}
    rows = [row for row, identifier in enumerate(documents["id"].to_pylist()) if identifier not in own]
    texts = documents["text"].take(pa.array(rows, pa.int64())).to_pylist()
    tables, features = [MATCH_SCHEMA.empty_table()], 0
    for first, last in batches(texts):
        table, count = find_matches(index, texts[first:last], np.array(rows[first:last]))
        tables.append(table)
        features += count
    write_table(shard.file(f"evidence/matches/{task.source}/{task.shard}"), pa.concat_tables(tables))
    return ScanCounts(
        documents=documents.num_rows,
        skipped=documents.num_rows - len(rows),
        features=features,
        num_bytes=sum(len(text.encode()) for text in texts),
    )


def find_matches(index: FeatureIndex, texts: list[str], rows: np.ndarray) -> tuple[pa.Table, int]:
    """Returns the match table of some texts, and how many features they have in all.

    Args:
        index: what to look for.
        texts: T texts.
        rows: int64[T]: the number that each goes by in the table.
    """
    features = extract_features(texts, index.ngram_words, index.shortest_words)
    hit = np.flatnonzero(index.find(features.hashes) >= 0)
    texts_hit, paragraphs_hit = features.texts[hit], features.paragraphs[hit]
    first_of_text = features.paragraphs[np.searchsorted(features.texts, texts_hit)]
    table = pa.table(
        {
            "row": rows[texts_hit],
            "paragraph": paragraphs_hit - first_of_text,  # counted from the text's first one with a feature
            "usable": np.bincount(features.paragraphs, minlength=1)[paragraphs_hit],
            "feature": features.hashes[hit],
        },
        schema=MATCH_SCHEMA,
    )
    return table, len(features.hashes)
