"""Files on any other fsspec filesystem, for those who ask for one by name: conditions are looked at, and then written.

Between the look and the write another process may write too, so one driver at a time is all that this can serve.
"""

import hashlib
from typing import Any

from marin_exec.store.conditional import AlreadyExists, Conflict, LogFile, Versioned
from marin_exec.store.object_log import ObjectLog


class UnsafeFiles:
    """What looks like `ConditionalFiles`, under a URL.

    Args:
        fs: the fsspec filesystem, without listing caches.
        base: URL, ending in "/".
    """

    def __init__(self, fs: Any, base: str):
        self._fs = fs
        self._base = base

    def read(self, path: str) -> Versioned[bytes] | None:
        try:
            data = self._fs.cat_file(self._base + path)
        except FileNotFoundError:
            return None
        return Versioned(data, _version(data))

    def read_end(self, path: str, num_bytes: int) -> bytes:
        found = self.read(path)
        return found.data[-num_bytes:] if found else b""

    def create(self, path: str, data: bytes) -> str:
        if self._fs.exists(self._base + path):
            raise AlreadyExists(path)
        self._fs.makedirs((self._base + path).rpartition("/")[0], exist_ok=True)
        return self._write(path, data)

    def replace(self, path: str, data: bytes, version: int | str) -> str:
        found = self.read(path)
        if found is None or found.version != version:
            raise Conflict(path)
        return self._write(path, data)

    def _write(self, path: str, data: bytes) -> str:
        self._fs.pipe_file(self._base + path, data)
        return _version(data)

    def names(self, directory: str) -> list[str]:
        try:
            found = self._fs.ls(self._base + directory, detail=False)
        except FileNotFoundError:
            return []
        return sorted(each.rstrip("/").rpartition("/")[2] for each in found)

    def open_log(self, path: str) -> LogFile:
        return ObjectLog(self, path)

    def delete_tree(self, directory: str) -> None:
        if self._fs.exists(self._base + directory):
            self._fs.rm(self._base + directory, recursive=True)


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
