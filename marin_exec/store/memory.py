"""Conditional files in this process's memory, for tests and for the local backend. Nothing survives the process."""

import itertools
import threading

from marin_exec.store.conditional import AlreadyExists, Conflict, LogFile, Versioned

_LOCK = threading.Lock()
_OBJECTS: dict[str, Versioned[bytes]] = {}
_VERSIONS = itertools.count(1)  # never given twice, so a deleted and remade object is another version


class MemoryLog:
    """A log that appends to an object."""

    def __init__(self, full: str):
        self._full = full

    full = False

    def append(self, data: bytes, *, soon: bool = False) -> None:
        del soon  # nothing is cheaper later
        with _LOCK:
            _OBJECTS[self._full] = Versioned(_OBJECTS[self._full].data + data, next(_VERSIONS))

    def close(self) -> None:
        return


class MemoryFiles:
    """`ConditionalFiles` in one process-wide table.

    Args:
        base: what to put before a path; stores of one base share their objects.
    """

    def __init__(self, base: str):
        self._base = base

    def read(self, path: str) -> Versioned[bytes] | None:
        with _LOCK:
            return _OBJECTS.get(self._base + path)

    def read_end(self, path: str, num_bytes: int) -> bytes:
        found = self.read(path)
        return found.data[-num_bytes:] if found else b""

    def create(self, path: str, data: bytes) -> int | str:
        with _LOCK:
            if self._base + path in _OBJECTS:
                raise AlreadyExists(path)
            made = _OBJECTS[self._base + path] = Versioned(data, next(_VERSIONS))
        return made.version

    def replace(self, path: str, data: bytes, version: int | str) -> int | str:
        with _LOCK:
            found = _OBJECTS.get(self._base + path)
            if found is None or found.version != version:
                raise Conflict(path)
            made = _OBJECTS[self._base + path] = Versioned(data, next(_VERSIONS))
        return made.version

    def names(self, directory: str) -> list[str]:
        start = f"{self._base}{directory}/"
        with _LOCK:
            return sorted({full[len(start) :].split("/", 1)[0] for full in _OBJECTS if full.startswith(start)})

    def open_log(self, path: str) -> LogFile:
        self.create(path, b"")
        return MemoryLog(self._base + path)

    def delete_tree(self, directory: str) -> None:
        start = f"{self._base}{directory}/"
        with _LOCK:
            for full in [each for each in _OBJECTS if each.startswith(start)]:
                del _OBJECTS[full]
