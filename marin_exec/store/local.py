"""Conditional files on a local (or shared POSIX) disk: an exclusive hard link is the one atomic step.

A file is written under a random temporary name in its own directory, synced, and linked to its final name; a link fails
if the name is taken. A replaceable object NAME is on disk as NAME.00000001, NAME.00000002, ...: the highest number is
its content, and its version. Replacing version v is making v+1. Older numbers are removed afterwards, by whoever made
the newest, so a writer that slept for long may find v+1 free again: it lists after its link, and has failed if a higher
number is there, or v is not. It leaves what it linked where it is: that may have been the newest for a while, and others
build on it. No lock is held at any point, so a stopped or killed process stops nobody.

What a kill or a failure leaves behind is a temporary name or an older number; neither is ever read.
"""

import errno
import os
import secrets
import shutil
from typing import Any

from marin_exec.store.conditional import AlreadyExists, Conflict, LogFile, Versioned
from marin_exec.store.layout import HINTS, REPLACEABLE, TEMPORARY

_READ_TRIES = 1000
_EMPTY_LISTINGS = 5
_READ_BYTES = 1 << 16
_DIGITS = 8


class LocalLog:
    """A log file whose lines outlive this process once `append` returns.

    They are not synced: a power cut may take the last of them away, and nothing that counts rests on a log.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    full = False

    def append(self, data: bytes, *, soon: bool = False) -> None:
        del soon  # a write costs next to nothing
        while data:
            data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        os.close(self._descriptor)


class LocalFiles:
    """`ConditionalFiles` under a directory.

    Args:
        root: absolute path of the store's prefix.
    """

    def __init__(self, root: str):
        self._base = root if root.endswith("/") else root + "/"

    def read(self, path: str) -> Versioned[bytes] | None:
        full = self._base + path
        if not _is_replaceable(path):
            try:
                return Versioned(_contents(full), 1)
            except FileNotFoundError:
                return None
        empty = 0
        for _ in range(_READ_TRIES):
            numbers = _numbers(full)
            if not numbers:
                # A listing need not show a name that was added while it ran, though its predecessor was removed
                # meanwhile; so many in a row would have to miss a replacement each.
                empty += 1
                if empty == _EMPTY_LISTINGS or not os.path.isdir(full.rpartition("/")[0]):
                    return None
                continue
            newest = max(numbers)
            try:
                return Versioned(_contents(_numbered(full, newest)), newest)
            except FileNotFoundError:
                continue  # replaced and pruned between the listing and the open
        raise OSError(errno.EAGAIN, "replaced faster than it can be read", full)

    def read_end(self, path: str, num_bytes: int) -> bytes:
        try:
            with open(self._base + path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - num_bytes))
                return file.read(num_bytes)
        except FileNotFoundError:
            return b""

    def create(self, path: str, data: bytes) -> int:
        full = self._base + path
        if not _is_replaceable(path):
            _link_new(full, data, make_parents=True, synced=not path.startswith(HINTS))
            return 1
        if _numbers(full):
            raise AlreadyExists(path)
        _link_new(_numbered(full, 1), data, make_parents=True)
        if max(_numbers(full), default=0) != 1:
            raise AlreadyExists(path)
        return 1

    def replace(self, path: str, data: bytes, version: int | str) -> int:
        assert _is_replaceable(path) and isinstance(version, int), (path, version)
        full, new = self._base + path, version + 1
        if max(_numbers(full), default=0) != version:
            raise Conflict(path)
        try:
            _link_new(_numbered(full, new), data, make_parents=False)
        except (AlreadyExists, FileNotFoundError):  # the latter: the whole directory is gone
            raise Conflict(path) from None
        numbers = _numbers(full)
        if max(numbers, default=0) != new or version not in numbers:
            raise Conflict(path)
        _sync_directory(full)
        for number in numbers:
            if number < new:
                _unlink(_numbered(full, number))
        return new

    def names(self, directory: str) -> list[str]:
        try:
            found = os.listdir(self._base + directory)
        except FileNotFoundError:
            return []
        return sorted(name for name in found if not name.startswith(TEMPORARY))

    def open_log(self, path: str) -> LogFile:
        full = self._base + path
        try:
            return LocalLog(_open_new(full, os.O_APPEND, make_parents=True))
        except FileExistsError:
            raise AlreadyExists(path) from None

    def delete_tree(self, directory: str) -> None:
        def unless_gone(function: Any, path: str, error: BaseException) -> None:
            if not isinstance(error, FileNotFoundError):
                raise error

        shutil.rmtree(self._base + directory, onexc=unless_gone)


def _is_replaceable(path: str) -> bool:
    return path.rpartition("/")[2] in REPLACEABLE


def _contents(full: str) -> bytes:
    """Returns what a file holds. A plan reads tens of thousands of small files, and `open` costs more than that."""
    descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while data := os.read(descriptor, _READ_BYTES):
            parts.append(data)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _numbered(full: str, number: int) -> str:
    return f"{full}.{number:0{_DIGITS}d}"


def _numbers(full: str) -> list[int]:
    directory, _, name = full.rpartition("/")
    start = name + "."
    try:
        found = os.listdir(directory)
    except FileNotFoundError:
        return []
    return [
        int(each[len(start) :])
        for each in found
        if each.startswith(start) and len(each) >= len(start) + _DIGITS and each[len(start) :].isdecimal()
    ]


def _link_new(final: str, data: bytes, *, make_parents: bool, synced: bool = True) -> None:
    if os.path.lexists(final):
        raise AlreadyExists(final)
    temporary = os.path.join(os.path.dirname(final), TEMPORARY + secrets.token_hex(8))
    descriptor = _open_new(temporary, 0, make_parents=make_parents)
    try:
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if synced:
                    os.fsync(file.fileno())  # the content before the name
            os.link(temporary, final)
        except FileExistsError:
            if os.stat(temporary).st_nlink == 1:
                raise AlreadyExists(final) from None
            # Else it is linked after all: a network file system lost the answer, and asked again.
        except OSError as error:
            error.filename = error.filename or final  # an open file tells only the reason, e.g. that the disk is full
            raise
    finally:
        _unlink(temporary)


def _sync_directory(full: str) -> None:
    """Makes what happened to a file's directory outlive a power cut.

    Done after each replace and before the older number goes: then a commit that others were told of stays, and so does
    what was made before it, on file systems with a journal. A name that was only created is a claim, a record or a piece;
    what is lost of those is made again. It costs about as much as the sync of the file.
    """
    descriptor = os.open(full.rpartition("/")[0], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_new(full: str, flags: int, *, make_parents: bool) -> int:
    """Opens a file that must be new for writing; its directory is nearly always there, so it is tried without first."""
    flags |= os.O_CREAT | os.O_EXCL | os.O_WRONLY
    try:
        return os.open(full, flags, 0o666)
    except FileNotFoundError:
        if not make_parents:
            raise
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return os.open(full, flags, 0o666)


def _unlink(full: str) -> None:
    try:
        os.unlink(full)
    except FileNotFoundError:
        return  # somebody else pruned it
