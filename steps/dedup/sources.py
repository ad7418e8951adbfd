"""What both deduplication steps do with their list of sources: read ids of it, and order ids of any number."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from marin_exec import StepFailed
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput


def source_shards(sources: Iterable[NamedInput]) -> list[tuple[int, NamedInput, str]]:
    """Returns (priority, source, shard file name) for each shard, in order of sources (the first has 0) and shards."""
    return [(i, source, shard) for i, source in enumerate(sources) for shard in document_shards(source.path)]


def read_ids(path: str, shard: str) -> pa.StringArray:
    """Returns a documents shard's ids, checked to be what the contract says.

    Raises:
        StepFailed: the shard is missing or damaged, has no `id`, or its ids are not sorted and unique.
    """
    return read_documents(path, shard, ["id"])["id"].combine_chunks()


def id_keys(ids: pa.StringArray, where: str) -> np.ndarray:
    """Returns uint64[N, 2] that sort and compare as the 32-digit ids do.

    Raises:
        StepFailed: an id is not 32 hex digits.
    """
    if not len(ids):
        return np.empty((0, 2), dtype=np.uint64)
    _, places, digits = ids.buffers()
    offsets = np.frombuffer(places, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
    try:
        if np.any(np.diff(offsets) != 32):
            raise ValueError("an id does not have 32 digits")
        key_bytes = bytes.fromhex(digits[offsets[0] : offsets[-1]].to_pybytes().decode())
        return np.frombuffer(key_bytes, dtype=">u8").reshape(len(ids), 2).astype(np.uint64)
    except ValueError as error:
        raise StepFailed(f"{where}: ids must be 32 hex digits ({error}); run documents/normalize first") from error


def id_of(key: np.ndarray) -> str:
    """Returns the id whose key, uint64[2], this is."""
    return f"{key[0]:016x}{key[1]:016x}"
