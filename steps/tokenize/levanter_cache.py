"""The arrays of one Levanter cache: written by Levanter's own writer, read whole as NumPy.

A cache is a `levanter.store.cache.TreeCache` with one field, `input_ids`: two zarr3 arrays and a ledger that is
written last. Reading needs tensorstore alone (0.15 s to import, where Levanter's reader takes 2-3 s and goes row by
row), and reads local files: from an object store a cell's files are fetched first, over the connection, credentials and
endpoint that all other files use.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marin_exec import StepFailed
from steps.files import local_copy

FIELD = "input_ids"
_LEDGER = "shard_ledger.json"  # Levanter writes it last


def write_cache(directory: str, batches: Iterable[Sequence[np.ndarray]], metadata: dict[str, Any]) -> list[str]:
    """Writes documents as a Levanter cache into a local directory; equal batches give equal bytes.

    A document is one row, however long: a row has no limit.

    Args:
        directory: local directory to make; the cache lies directly in it.
        batches: documents, int32[N] each, some at a time; none is kept after it was written.
        metadata: kept in Levanter's ledger.

    Returns:
        The files written, relative to `directory`, sorted.
    """
    from levanter.store.cache import CacheMetadata, SerialCacheWriter  # 3 s: only for those who write

    exemplar = {FIELD: np.zeros(0, dtype=np.int32)}
    with SerialCacheWriter(directory, exemplar, metadata=CacheMetadata(metadata), shard_name="part-00000") as writer:
        for batch in batches:
            writer.write_batch([{FIELD: row} for row in batch])
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


def read_cache_parts(directory: str, largest_tokens: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields the documents of a cache in a local directory in order, as many at a time as fit, at least one.

    Args:
        directory: of the cache.
        largest_tokens: of a part; a longer document is a part alone.

    Yields:
        Number of the part's first document, its tokens (int32[n]) and its offsets, from 0 (int64[d + 1]).

    Raises:
        StepFailed: the cache cannot be read.
    """
    with _readable(directory):
        data, offsets = _open(directory)
        first = 0
        while first < len(offsets) - 1:
            last = int(np.searchsorted(offsets, offsets[first] + largest_tokens, side="right")) - 1
            last = max(last, first + 1)
            start, end = int(offsets[first]), int(offsets[last])
            yield first, np.asarray(data[start:end].read().result(), dtype=np.int32), offsets[first : last + 1] - start
            first = last


def _read_arrays(directory: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    with _readable(where):
        data, offsets = _open(directory)
        return np.asarray(data[: int(offsets[-1])].read().result(), dtype=np.int32), offsets


def _open(directory: str) -> tuple[Any, np.ndarray]:
    """The tokens, not yet read, and the offsets, int64[D + 1]."""
    import tensorstore as ts

    def open_array(name: str) -> Any:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{directory}/{FIELD}/{name}/"}}
        return ts.open(spec, open=True, read=True).result()

    stored = open_array("offsets")
    num_documents = int(stored[0].read().result())  # the first place holds the number of rows
    offsets = np.array(stored[: num_documents + 1].read().result(), dtype=np.int64)
    offsets[0] = 0
    return open_array("data"), offsets


@contextmanager
def _readable(where: str) -> Generator[None]:
    try:
        yield
    except ValueError as error:
        raise StepFailed(f"{where}: the Levanter cache cannot be read ({error}); run tokenize/cache again") from error
