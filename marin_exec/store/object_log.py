"""Logs on object stores, where nothing can be appended to: the object is rewritten, by its one writer.

Each write is conditional on the version that the writer wrote last, so a second writer is found rather than
overwritten. As a log grows each write costs more, and Google Cloud Storage takes about one write a second to an object:
so a log asks to be followed by another segment once it is large, and what need not be safe at once is held back for up
to a second and written together.
"""

import threading
from typing import TYPE_CHECKING

from marin_exec.errors import StoreError
from marin_exec.store.conditional import AlreadyExists, Conflict

if TYPE_CHECKING:
    from marin_exec.store.conditional import ConditionalFiles

FULL_BYTES = 1 << 15
HELD_BACK_SECONDS = 1.0


class ObjectLog:
    """A log in one object. It is made by the first write, which finds out whether the name is free.

    Args:
        files: where; of them `read`, `create` and `replace` are used.
        path: relative to the store's prefix.
    """

    def __init__(self, files: "ConditionalFiles", path: str):
        self._files = files
        self._path = path
        self._written = b""
        self._waiting = b""
        self._version: int | str | None = None
        self._untold = False
        """Whether bytes wait whose append returned as if they were written."""
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    @property
    def full(self) -> bool:
        return len(self._written) + len(self._waiting) >= FULL_BYTES

    def append(self, data: bytes, *, soon: bool = False) -> None:
        """Adds the bytes; what an earlier call could not write is written first.

        Args:
            soon: they may be held back for up to `HELD_BACK_SECONDS`, and are lost if the process is killed meanwhile.

        Raises:
            AlreadyExists: another writer has this log; only the first write says so.
            StoreError: another process wrote to it after us.
            OSError: the store could not be reached; the bytes are tried again with the next ones.
        """
        with self._lock:
            self._waiting += data
            if soon and self._version is not None:
                self._untold = True
                if self._timer is None:
                    self._timer = threading.Timer(HELD_BACK_SECONDS, self._write_held_back)
                    self._timer.daemon = True
                    self._timer.start()
                return
            self._untold = False
            self._write()

    def close(self) -> None:
        """Writes what is held back.

        Raises:
            OSError: that failed; likewise StoreError. Nothing is raised for bytes whose append had failed before.
        """
        with self._lock:
            try:
                self._write()
            except (OSError, StoreError, AlreadyExists):  # the latter: the first append was interrupted and never told
                if self._untold:
                    raise

    def _write_held_back(self) -> None:
        with self._lock:
            try:
                self._write()
            except (OSError, StoreError):
                return  # still untold: the next append or close tries again, and says so

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            whole = self._written + self._waiting
            try:
                if self._version is None:
                    self._version = self._files.create(self._path, whole)
                else:
                    self._version = self._files.replace(self._path, whole, self._version)
                self._written, self._waiting = whole, b""
            except (AlreadyExists, Conflict) as error:
                self._take_in_what_arrived(whole, error)

    def _take_in_what_arrived(self, whole: bytes, error: Exception) -> None:
        """Notes an earlier write of ours whose answer was lost; what is there else is another writer's."""
        found = self._files.read(self._path)
        if found is not None and whole.startswith(found.data) and len(found.data) > len(self._written):
            self._written, self._waiting, self._version = found.data, whole[len(found.data) :], found.version
            return
        if isinstance(error, AlreadyExists):
            self._waiting = b""  # goes to another segment
            raise error
        what = "was removed" if found is None else "has another writer"
        raise StoreError(f"{self._path}: the log {what} while it was written; each writer takes a segment of its own")
