"""The step "heldout/select": which documents of each source are kept out of training, to evaluate on.

A document is eligible when it is not an exact or near duplicate of a kept one (the copies that stay out of training
anyway would otherwise be scored for having been memorised) and, if heuristics are given, when they keep it, so that
evaluation sets are of the kind of text that is trained on. Among the eligible the lowest seeded hashes of ids are
chosen: the choice depends on ids and seed alone, and a larger fraction holds out the same documents and more.

Output: `documents/<source>/part-00000.parquet`, a documents data set a source, to be tokenised as an evaluation set;
and `table/<source>/part-NNNNN.parquet`, the sparse table of the ids that must not be trained on.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa

from marin_exec import ConfigError, InputPath, Out, StepFailed, added_default, kind
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, check_column, join_dense, read_table, sparse_rows, write_table
from steps.seeded_ranks import choice_rank


@dataclass(frozen=True, kw_only=True)
class HeldoutConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets to choose from, each on its own."""
    exact: InputPath
    """Sparse table of dedup/exact."""
    fuzzy: InputPath
    """Sparse table of dedup/fuzzy."""
    heuristics: InputPath | None = None
    """Dense table of quality/heuristics; None takes documents whatever their quality."""
    fraction: float | None = None
    """Share of each source's eligible documents to hold out, rounded. Either this or `count` is set."""
    at_least: int = 1
    """With `fraction`: hold out this many of a source even if its share is less, so that small sets say something."""
    count: int | None = None
    """Number of documents to hold out of each source."""
    longest_characters: int | None = None
    """Longer documents are not chosen, which bounds what an evaluation costs; None sets no bound."""
    seed: int = 0
    """Of the choice."""
    from_sources: Annotated[tuple[str, ...] | None, added_default(None)] = None
    """Names of the sources to hold out of; the others only get their (empty) tables. None takes all."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        if (self.fraction is None) == (self.count is None):
            raise ConfigError(
                f"HeldoutConfig: fraction {self.fraction}, count {self.count}; exactly one of them must be set"
            )
        check_number(self, "fraction", above=0, below=1)
        check_number(self, "at_least", "count", "longest_characters", low=1)
        names = [source.name for source in self.sources]
        if unknown := sorted(set(self.from_sources or ()) - set(names)):
            raise ConfigError(f"HeldoutConfig.from_sources: {unknown}; names of sources are needed, which are {names}")


@dataclass(frozen=True)
class HeldoutResult:
    """Counts by source."""

    documents_in: dict[str, int]
    eligible: dict[str, int]
    held_out: dict[str, int]
    held_out_bytes: dict[str, int]


@kind("heldout/select", version=1)
def select_heldout(config: HeldoutConfig, out: Out) -> HeldoutResult:
    """Chooses the held-out documents of every source, and writes them and their ids.

    Raises:
        StepFailed: a source has no eligible document, too few for `count`, or none that would be left to train on.
    """
    documents_in, eligible, held_out, held_out_bytes = {}, {}, {}, {}
    for source in config.sources:
        shards = document_shards(source.path)
        parts = [_candidates(config, source, shard) for shard in shards]
        ids = [identifier for part in parts for identifier in part.eligible]
        trainable = sum(part.trainable for part in parts)
        asked = config.from_sources is None or source.name in config.from_sources
        quota = _quota(config, source.name, trainable, len(ids)) if asked else 0
        texts = _write(source, shards, choose(ids, quota, config.seed), out)
        documents_in[source.name] = sum(part.documents for part in parts)
        eligible[source.name] = len(ids)
        held_out[source.name] = len(texts)
        held_out_bytes[source.name] = sum(len(text.encode()) for text in texts)
    return HeldoutResult(documents_in=documents_in, eligible=eligible, held_out=held_out, held_out_bytes=held_out_bytes)


@dataclass(frozen=True)
class Candidates:
    """One shard's documents: all, those that nothing keeps from being trained on, and the ids that may be held out."""

    documents: int
    trainable: int
    eligible: list[str]


def choose(ids: list[str], count: int, seed: int) -> set[str]:
    """Returns the `count` ids with the lowest seeded hashes; ties (there are none in practice) go by id."""
    ranks = {identifier: choice_rank(seed, identifier) for identifier in ids}
    return set(sorted(ids, key=lambda identifier: (ranks[identifier], identifier))[:count])


def _quota(config: HeldoutConfig, source: str, trainable: int, eligible: int) -> int:
    share = max(config.at_least, round((config.fraction or 0) * eligible))
    quota = config.count if config.count is not None else share
    facts = f"source {source!r}: {trainable} documents are no duplicates and kept, {eligible} of them can be held out"
    if eligible == 0:
        raise StepFailed(f"{facts}; at least 1 is needed to evaluate on. Leave the source out, or loosen the limits")
    if quota > eligible:
        name = "at_least" if config.count is None else "count"
        raise StepFailed(f"{facts}, but {name} asks for {quota}; lower {name}, or leave the source out")
    if quota >= trainable:
        raise StepFailed(f"{facts}; with {quota} held out none is left to train on. Lower count or fraction")
    return quota


def _candidates(config: HeldoutConfig, source: NamedInput, shard: str) -> Candidates:
    columns = ["id"] if config.longest_characters is None else ["id", "text"]
    documents = read_documents(source.path, shard, columns)
    trainable = np.ones(documents.num_rows, dtype=bool)
    for sparse in (config.exact, config.fuzzy):
        trainable &= ~_marked(documents, f"{sparse}/{source.name}", shard)
    if config.heuristics is not None:
        where = f"{config.heuristics}/{source.name}"
        joined = join_dense(documents.select(["id"]), read_table(where, shard, ["id", "keep"]), f"{where}/{shard}")
        check_column(joined, "keep", "boolean", f"{where}/{shard}")
        trainable &= joined["keep"].to_numpy()
    eligible = trainable
    if config.longest_characters is not None:
        lengths = [len(text) for text in documents["text"].to_pylist()]
        eligible = trainable & (np.array(lengths, dtype=np.int64) <= config.longest_characters)
    ids = documents["id"].filter(pa.array(eligible)).to_pylist()
    return Candidates(documents.num_rows, int(trainable.sum()), ids)


def _marked(documents: pa.Table, path: str, shard: str) -> np.ndarray:
    """bool[documents]: which documents a sparse table has."""
    marked = np.zeros(documents.num_rows, dtype=bool)
    marked[sparse_rows(documents["id"].to_pylist(), read_table(path, shard, ["id"]), f"{path}/{shard}")] = True
    return marked


def _is_in(documents: pa.Table, ids: set[str]) -> np.ndarray:
    return np.array([identifier in ids for identifier in documents["id"].to_pylist()], dtype=bool)


def _write(source: NamedInput, shards: list[str], chosen: set[str], out: Out) -> list[str]:
    """Writes a source's held-out documents and the table of their ids; returns the texts."""
    picked = []
    for shard in shards:
        documents = read_documents(source.path, shard)
        picked.append(documents.filter(pa.array(_is_in(documents, chosen))))
        write_table(out.file(f"table/{source.name}/{shard}"), picked[-1].select(["id"]))
    held_out = pa.concat_tables(picked).sort_by("id")
    if held_out.num_rows:
        write_table(out.file(f"documents/{source.name}/part-00000.parquet"), held_out)
    return held_out["text"].to_pylist()
