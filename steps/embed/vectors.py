"""Embedding tables: unit vectors as int8 beside their document ids, with the scale in the schema."""

import io

import numpy as np
import pyarrow as pa

from marin_exec import StepFailed, open_file
from steps.documents import read_table, shard_names
from steps.files import read_bytes

_SCALE_KEY = b"scale"
_LEVELS = 127


def quantize(vectors: np.ndarray, int8_range: float) -> np.ndarray:
    """Returns int8[n, d]: entries over plus and minus `int8_range`, rounded to even, clipped at the ends."""
    return np.clip(np.rint(vectors * (_LEVELS / int8_range)), -_LEVELS, _LEVELS).astype(np.int8)


def scale_of(int8_range: float) -> float:
    """Returns what an int8 entry is multiplied by to get the vector's entry back."""
    return int8_range / _LEVELS


def embedding_table(ids: list[str], quantized: np.ndarray, scale: float) -> pa.Table:
    """Returns the dense table `id`, `embedding` (fixed_size_list<int8>[d]) with `scale` in its schema metadata."""
    values = pa.array(quantized.reshape(-1), type=pa.int8())
    column = pa.FixedSizeListArray.from_arrays(values, quantized.shape[1])
    schema = pa.schema(
        [pa.field("id", pa.string(), nullable=False), pa.field("embedding", column.type, nullable=False)],
        metadata={_SCALE_KEY: repr(scale).encode()},
    )
    return pa.table([pa.array(ids, type=pa.string()), column], schema=schema)


def scale_in(table: pa.Table, where: str) -> float:
    """Returns what a table's int8 entries are multiplied by.

    Raises:
        StepFailed: it is not an embedding table.
    """
    scale = (table.schema.metadata or {}).get(_SCALE_KEY)
    if scale is None or "embedding" not in table.column_names:
        raise StepFailed(f"{where}: no embedding column with its scale; an embed/documents step's output is needed")
    return float(scale)


def vectors_of(table: pa.Table, where: str) -> np.ndarray:
    """Returns a table's vectors as unit-length float32[n, d].

    Raises:
        StepFailed: it is not an embedding table, or a vector is zero or not finite.
    """
    scale = scale_in(table, where)
    column = table["embedding"].combine_chunks()
    quantized = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    vectors = quantized.astype(np.float32) * np.float32(scale)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if bad := int((~(norms > 0) | ~np.isfinite(norms)).sum()):
        raise StepFailed(f"{where}: {bad} vectors are zero or not finite; run the embedding step again")
    return vectors / norms


def read_shard(path: str, shard: str) -> tuple[list[str], np.ndarray]:
    """Returns one shard's document ids and unit-length vectors, float32[n, d]."""
    table = read_table(path, shard)
    return table["id"].to_pylist(), vectors_of(table, f"{path}/{shard}")


def read_source(path: str) -> tuple[list[str], np.ndarray]:
    """Returns all ids and vectors, float32[n, d], of one source's embedding table, in shard order."""
    shards = [read_shard(path, shard) for shard in shard_names(path)]
    return [each for ids, _ in shards for each in ids], np.concatenate([vectors for _, vectors in shards])


def write_array(full_path: str, array: np.ndarray) -> None:
    """Writes an array as .npy, without pickle."""
    with open_file(full_path, "wb") as file:
        np.save(file, array, allow_pickle=False)


def read_array(full_path: str) -> np.ndarray:
    """Returns the array of an .npy file, refusing pickled ones."""
    return np.load(io.BytesIO(read_bytes(full_path)), allow_pickle=False)
