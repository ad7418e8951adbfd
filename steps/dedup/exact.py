"""Exact deduplication across sources: which documents an earlier source has already.

An id is a hash of the text, so only ids are read. Within a source ids are unique (normalize saw to that); across
sources the order of `sources` is the priority of the copy that stays. Memory: 60 bytes a document, while 16 of each are sorted.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import Out, StepFailed, kind
from steps.config_checks import check_sources
from steps.dedup.sources import id_keys, id_of, read_ids, source_shards
from steps.documents import NamedInput, write_table

_SCHEMA = pa.schema([("id", pa.string()), ("kept_source", pa.string())])


@dataclass(frozen=True, kw_only=True)
class ExactConfig:
    """Sources to compare with each other."""

    sources: tuple[NamedInput, ...]
    """Documents data sets; where two hold the same text, the copy in the earlier one stays."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")


@dataclass(frozen=True)
class ExactResult:
    """Counters of exact deduplication."""

    documents_in: int
    """Documents of all sources."""
    removed: int
    """Documents that an earlier source holds as well."""
    documents_in_by_source: dict[str, int]
    """Documents, by source."""
    removed_by_source: dict[str, int]
    """Removed documents, by the source that loses them."""
    kept_by_source: dict[str, int]
    """Removed documents, by the source whose copy stays."""


def id_runs(keys: np.ndarray, priorities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[N] order by id, then priority, and bool[N]: whether it has the id of the one before in that order.

    Args:
        keys: uint64[N, 2] ids.
        priorities: int64[N] number of each document's source, 0 first.
    """
    order = np.lexsort((priorities, keys[:, 1], keys[:, 0]))
    repeats = np.zeros(len(order), dtype=bool)
    repeats[1:] = (keys[order][1:] == keys[order][:-1]).all(axis=1)
    return order, repeats


@kind("dedup/exact", version=1)
def exact_duplicates(config: ExactConfig, out: Out) -> ExactResult:
    """Writes, per source and shard, the sparse table `id, kept_source` of documents that an earlier source holds.

    Raises:
        StepFailed: a source breaks the documents contract (see steps/documents.py).
    """
    shards = source_shards(config.sources)
    keys = [id_keys(read_ids(source.path, shard), f"{source.path}/{shard}") for _, source, shard in shards]
    priorities = np.repeat([priority for priority, _, _ in shards], [len(each) for each in keys])
    all_keys = np.concatenate(keys)
    order, repeats = id_runs(all_keys, priorities)
    _check_unique_within_source(all_keys, priorities, order, repeats, config.sources)
    first_of_run = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(order))))
    holders = np.empty(len(order), dtype=np.int64)
    holders[order] = priorities[order][first_of_run]

    names = [source.name for source in config.sources]
    removed: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    start = 0
    for (priority, source, shard), shard_keys in zip(shards, keys, strict=True):
        own = holders[start : start + len(shard_keys)]
        start += len(shard_keys)
        hits = np.flatnonzero(own != priority)
        kept_source = [names[own[row]] for row in hits]
        table = pa.table({"id": list(map(id_of, shard_keys[hits])), "kept_source": kept_source}, schema=_SCHEMA)
        write_table(out.file(f"{source.name}/{shard}"), table)
        removed[source.name] += len(hits)
        kept.update(kept_source)
    documents = np.bincount(priorities, minlength=len(names))
    return ExactResult(
        documents_in=len(priorities),
        removed=removed.total(),
        documents_in_by_source={name: int(count) for name, count in zip(names, documents, strict=True)},
        removed_by_source={name: removed[name] for name in names},
        kept_by_source={name: kept[name] for name in names},
    )


def _check_unique_within_source(
    keys: np.ndarray, priorities: np.ndarray, order: np.ndarray, repeats: np.ndarray, sources: tuple[NamedInput, ...]
) -> None:
    """Each shard is known to be unique; an id in two shards of one source would never be removed from either."""
    ordered = priorities[order]
    repeated = np.flatnonzero(repeats & (np.roll(ordered, 1) == ordered))
    if repeated.size:
        row = order[repeated[0]]
        raise StepFailed(
            f"dedup/exact: source {sources[priorities[row]].name!r} holds id {id_of(keys[row])} in "
            f"more than one shard ({repeated.size} such); run documents/normalize on it first"
        )
