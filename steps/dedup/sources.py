"""What both deduplication steps do with their list of sources: read ids of it, and order ids of any number."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from marin_exec import StepFailed
from steps.documents import NamedInput, read_table, shard_names


def source_shards(sources: Iterable[NamedInput]) -> list[tuple[int, NamedInput, str]]:
    """Returns (priority, source, shard file name) for each shard, in order of sources (the first has 0) and shards."""
    return [(i, source, shard) for i, source in enumerate(sources) for shard in shard_names(source.path)]


def read_ids(path: str, shard: str) -> list[str]:
    """Returns a documents shard's ids, checked to be what the contract says.

    Raises:
        StepFailed: the shard is missing or damaged, has no `id`, or its ids are not sorted and unique.
    """
    column = read_table(path, shard, ["id"])["id"]
    if not pa.types.is_string(column.type) or column.null_count:
        raise StepFailed(
            f"{path}/{shard}: column id is {column.type} with {column.null_count} nulls; strings are needed"
        )
    ids = column.to_pylist()
    if not all(before < after for before, after in pairwise(ids)):
        raise StepFailed(
            f"{path}/{shard}: ids are not sorted and unique, so this is not a normalised documents data set; "
            f"run documents/normalize on the source first"
        )
    return ids


def id_keys(ids: Sequence[str], where: str) -> np.ndarray:
    """Returns big-endian uint64[N, 2] that sort and compare as the 32-digit ids do.

    Raises:
        StepFailed: an id is not 32 hex digits.
    """
    try:
        if not all(len(each) == 32 for each in ids):
            raise ValueError("an id does not have 32 digits")
        return np.frombuffer(bytes.fromhex("".join(ids)), dtype=">u8").reshape(-1, 2).astype(np.uint64)
    except ValueError as error:
        raise StepFailed(f"{where}: ids must be 32 hex digits ({error}); run documents/normalize first") from error
