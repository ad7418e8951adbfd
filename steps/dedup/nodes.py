"""The signed documents, numbered as nodes by (id, source priority): nothing that follows depends on how they lie in shards.

Those of an earlier run come first in priority, and are read as that run left them: their signatures, and whom it removed.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import StepFailed
from steps.dedup.signatures import SignatureParameters, read_signatures
from steps.dedup.sources import id_keys, id_of, source_shards
from steps.documents import NamedInput, read_table, shard_names


@dataclass(frozen=True, kw_only=True)
class SignedShard:
    """A documents shard with its signatures."""

    source: NamedInput
    priority: int
    """Number of the source, those of earlier runs before all others."""
    shard: str
    """File name, of the documents and of the signatures."""
    signatures: str
    """Directory of the source's signatures."""
    num_signed: int | None = None
    """Signatures that must be there; None if the shard was signed by an earlier run."""
    judged: str = ""
    """Directory of the source's table of removed documents, for a shard of an earlier run."""


@dataclass(frozen=True)
class Signed:
    """All signature shards, in order of priority and shards."""

    shards: list[SignedShard]
    parameters: SignatureParameters

    def read(self, columns: list[str]) -> pa.Table:
        """Returns columns of all signature shards, laid end to end."""
        return pa.concat_tables(
            [
                read_signatures(each.signatures, each.shard, self.parameters, columns, each.num_signed)
                for each in self.shards
            ]
        )


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """All signed documents, numbered."""

    keys: np.ndarray
    """uint64[N, 2] document id of each node; see `id_keys`."""
    num_words: np.ndarray
    """int64[N] words in each node's whole text."""
    priorities: np.ndarray
    """int64[N] number of each node's source."""
    shard_numbers: np.ndarray
    """int64[N] index into `Signed.shards`."""
    rows: np.ndarray
    """int64[N] row of each node in the signature shards, laid end to end."""
    standing: np.ndarray
    """bool[N] kept by an earlier run."""
    gone: np.ndarray
    """bool[N] removed by an earlier run."""

    def __len__(self) -> int:
        return len(self.keys)

    def id(self, node: int) -> str:
        return id_of(self.keys[node])


def earlier_shards(fuzzy: str, sources: tuple[NamedInput, ...], first_priority: int) -> list[SignedShard]:
    """Returns the shards that an earlier run signed and judged.

    Args:
        fuzzy: output of that run.
        sources: the documents data sets that it was given, by the names that it knew them by.
        first_priority: number of the first of them.

    Raises:
        StepFailed: the run has no signatures of a source, or of other shards than the source has.
    """
    shards = []
    for priority, source, shard in source_shards(sources):
        signatures = f"{fuzzy}/signatures/{source.name}"
        found = shard_names(signatures)
        if shard not in found or found != shard_names(source.path):
            raise StepFailed(
                f"dedup/fuzzy: {signatures} has {len(found)} shards, and {source.path} has {len(shard_names(source.path))}; "
                f"an earlier run and the sources that it was made from are needed"
            )
        shards.append(
            SignedShard(
                source=source,
                priority=first_priority + priority,
                shard=shard,
                signatures=signatures,
                judged=f"{fuzzy}/{source.name}",
            )
        )
    return shards


def number(signed: Signed) -> Nodes:
    """Numbers the signed documents by (id, source priority)."""
    columns = ["id", "num_words"]
    tables = [
        read_signatures(each.signatures, each.shard, signed.parameters, columns, each.num_signed)
        for each in signed.shards
    ]
    lengths = [table.num_rows for table in tables]
    keys = np.concatenate(
        [
            id_keys(table["id"].combine_chunks(), f"{each.signatures}/{each.shard}")
            for table, each in zip(tables, signed.shards, strict=True)
        ]
    )
    priorities = np.repeat(np.array([each.priority for each in signed.shards]), lengths)
    earlier = np.repeat(np.array([each.judged != "" for each in signed.shards]), lengths)
    gone = np.concatenate([_gone(each, table) for each, table in zip(signed.shards, tables, strict=True)])
    rows = np.lexsort((priorities, keys[:, 1], keys[:, 0]))
    return Nodes(
        keys=keys[rows],
        num_words=np.concatenate([table["num_words"].to_numpy() for table in tables])[rows],
        priorities=priorities[rows],
        shard_numbers=np.repeat(np.arange(len(signed.shards)), lengths)[rows],
        rows=rows,
        standing=(earlier & ~gone)[rows],
        gone=gone[rows],
    )


def _gone(shard: SignedShard, signatures: pa.Table) -> np.ndarray:
    if not shard.judged:
        return np.zeros(signatures.num_rows, dtype=bool)
    removed = set(read_table(shard.judged, shard.shard, ["id"])["id"].to_pylist())
    return np.array([identifier in removed for identifier in signatures["id"].to_pylist()], dtype=bool)
