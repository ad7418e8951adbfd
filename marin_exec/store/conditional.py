"""The only writes that the store's consistency rests on: create if absent, replace if unchanged.

A backend gives both, atomically, to any number of processes and hosts. Nothing relies on a conditional delete, on a
lock or on a clock. Paths are relative to the store's prefix.

Whoever replaces an object never writes content that the object had before: a backend may make its versions of the
content, and such content would bring its version back.

A caller that is told `Conflict` or `AlreadyExists` may still have succeeded: the answer to its request may have been
lost and the request repeated. It reads again and looks for its own content.
"""

from dataclasses import dataclass
from typing import Protocol


class AlreadyExists(Exception):
    """Inside the store package: an exclusive create found the object there."""


class Conflict(Exception):
    """Inside the store package: the object to be replaced is not of the version given, or gone."""


@dataclass(frozen=True)
class Versioned[T]:
    """An object's content, and what to give to `replace` so that only this version is replaced."""

    data: T
    version: int | str


class LogFile(Protocol):
    """An append-only file with one writer."""

    @property
    def full(self) -> bool:
        """Whether more would better go to another log."""
        ...

    def append(self, data: bytes, *, soon: bool = False) -> None:
        """Adds the bytes; they survive this process once the call returns.

        Args:
            soon: where each write is costly they may survive it a second later, or with the next write.

        Raises:
            AlreadyExists: there is one with another writer; only the first write says so, where `open_log` did not look.
        """
        ...

    def close(self) -> None: ...


class ConditionalFiles(Protocol):
    """One backend, to be used from any thread.

    Every method may raise OSError for what may pass (a full disk, a network share away), and StoreError for what a person
    has to mend (no such bucket, access refused).
    """

    def read(self, path: str) -> Versioned[bytes] | None:
        """Returns the newest content, or None if there is no such object."""
        ...

    def read_end(self, path: str, num_bytes: int) -> bytes:
        """Returns the last bytes of a log, at most so many; b"" if there is no such file."""
        ...

    def create(self, path: str, data: bytes) -> int | str:
        """Makes a new object with its parents and returns its version. A reader sees all of it or none.

        Raises:
            AlreadyExists: there is one; nothing was changed.
        """
        ...

    def replace(self, path: str, data: bytes, version: int | str) -> int | str:
        """Replaces the object if it is still of that version, and returns the new version.

        Raises:
            Conflict: it is of another version, or gone; nothing was changed.
        """
        ...

    def names(self, directory: str) -> list[str]:
        """Returns the sorted names of what is directly in a directory, as of now; [] if there is none."""
        ...

    def open_log(self, path: str) -> LogFile:
        """Returns a new append-only file; where nothing is made yet, its first write makes it.

        Raises:
            AlreadyExists: there is one: it has, or had, another writer.
        """
        ...

    def delete_tree(self, directory: str) -> None:
        """Removes everything below a directory; nothing, if there is none. Nobody's consistency may rest on it."""
        ...
