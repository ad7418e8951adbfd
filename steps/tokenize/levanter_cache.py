"""The arrays of one Levanter cache: written by Levanter's own writer, read whole as NumPy.

A cache is a `levanter.store.cache.TreeCache` with one field, `input_ids`: two zarr3 arrays and a ledger that is
written last. Reading needs tensorstore alone (0.15 s to import, where Levanter's reader takes 2-3 s and goes row by
row), and reads local files: from an object store a cell's files are fetched first, over the connection, credentials and
endpoint that all other files use.
"""

from pathlib import Path
from typing import Any

import numpy as np

from marin_exec import StepFailed
from steps.files import local_copy

FIELD = "input_ids"
_LEDGER = "shard_ledger.json"  # Levanter writes it last


def write_cache(directory: str, tokens: np.ndarray, offsets: np.ndarray, metadata: dict[str, Any]) -> list[str]:
    """Writes documents as a Levanter cache into a local directory; equal input gives equal bytes.

    Args:
        directory: local directory to make; the cache lies directly in it.
        tokens: int32[N].
        offsets: int64[D + 1], D at least 1.
        metadata: kept in Levanter's ledger.

    Returns:
        The files written, relative to `directory`, sorted.
    """
    from levanter.store.cache import CacheMetadata, SerialCacheWriter  # 3 s: only for those who write

    rows = np.split(np.asarray(tokens, dtype=np.int32), offsets[1:-1])
    exemplar = {FIELD: np.zeros(0, dtype=np.int32)}
    with SerialCacheWriter(directory, exemplar, metadata=CacheMetadata(metadata), shard_name="part-00000") as writer:
        writer.write_batch([{FIELD: row} for row in rows])
    root = Path(directory)
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


def read_cache(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a Levanter cache's tokens (int32[N]) and offsets (int64[D + 1]), read whole.

    Raises:
        StepFailed: there is no finished cache at `path`, or it cannot be read.
    """
    unfinished = f"{path}: no finished Levanter cache there ({_LEDGER} is missing)"
    try:
        with local_copy(path) as local:
            if not (Path(local) / _LEDGER).exists():
                raise StepFailed(unfinished)
            return _read_arrays(local, path)
    except FileNotFoundError as error:
        raise StepFailed(unfinished) from error


def _read_arrays(directory: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    import tensorstore as ts

    def open_array(name: str) -> Any:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{directory}/{FIELD}/{name}/"}}
        return ts.open(spec, open=True, read=True).result()

    try:
        stored = open_array("offsets")
        num_documents = int(stored[0].read().result())  # the first place holds the number of rows
        offsets = np.array(stored[: num_documents + 1].read().result(), dtype=np.int64)
        offsets[0] = 0
        tokens = open_array("data")[: int(offsets[-1])].read().result()
    except ValueError as error:
        raise StepFailed(f"{where}: the Levanter cache cannot be read ({error}); run tokenize/cache again") from error
    return np.asarray(tokens, dtype=np.int32), offsets
