"""A part of a documents data set, to try things out on: kind `documents/sample`.

The documents with the lowest seeded hashes of their ids stay, so the choice depends on no order, and copies of a text in two
sources of one fraction share their lot but for those at the cut.
"""

from dataclasses import dataclass

import pyarrow as pa

from marin_exec import InputPath, Out, kind
from steps.config_checks import check_number
from steps.contract import document_shards, read_documents
from steps.documents import shard_name, write_table
from steps.seeded_ranks import choice_rank


@dataclass(frozen=True, kw_only=True)
class SampleConfig:
    documents: InputPath
    """A documents data set."""
    fraction: float
    """Share of its documents to keep, rounded."""
    at_least: int = 1
    """Keep so many, if there are, where the share is less."""
    documents_per_shard: int = 10_000
    """Of the sample."""
    seed: int = 0
    """Of the choice."""

    def __post_init__(self) -> None:
        check_number(self, "fraction", above=0, high=1)
        check_number(self, "at_least", "documents_per_shard", low=1)


@dataclass(frozen=True)
class SampleResult:
    documents_in: int
    documents: int
    num_bytes: int
    """Of the sample's text, as UTF-8."""


@kind("documents/sample", version=1)
def sample_documents(config: SampleConfig, out: Out) -> SampleResult:
    """Writes the sample as a documents data set; memory holds the ids of all documents and the texts of one shard of each.

    Raises:
        StepFailed: the input is not a documents data set.
    """
    shards = document_shards(config.documents)
    ids = [read_documents(config.documents, shard, columns=["id"])["id"].to_pylist() for shard in shards]
    ranked = sorted((choice_rank(config.seed, identifier), identifier) for some in ids for identifier in some)
    count = max(round(config.fraction * len(ranked)), config.at_least)
    chosen = {identifier for _, identifier in ranked[:count]}
    num_bytes = written = 0
    waiting: list[pa.Table] = []

    def write(table: pa.Table) -> None:
        nonlocal written
        write_table(out.file(shard_name(written)), table)
        written += 1

    for shard, own in zip(shards, ids, strict=True):
        mask = pa.array([identifier in chosen for identifier in own], pa.bool_())
        kept = read_documents(config.documents, shard).filter(mask)
        num_bytes += sum(len(text.encode()) for text in kept["text"].to_pylist())
        waiting.append(kept)
        while sum(each.num_rows for each in waiting) >= config.documents_per_shard:
            whole = pa.concat_tables(waiting)
            write(whole.slice(0, config.documents_per_shard))
            waiting = [whole.slice(config.documents_per_shard)]
    rest = pa.concat_tables(waiting)
    if rest.num_rows or not written:
        write(rest)
    return SampleResult(documents_in=len(ranked), documents=len(chosen), num_bytes=num_bytes)
