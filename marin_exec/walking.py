"""Looking through a store's files as they are, for cleaning up: sizes, times, and how many names a file has."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from marin_exec.store import Store, layout
from marin_exec.store.reaching import reached


@dataclass
class Contents:
    """What lies below a directory, summed up."""

    files: int = 0
    bytes_alone: int = 0
    """Of files that have no other name."""
    shared: list[tuple[tuple[int, int], int, int]] = field(default_factory=list)
    """Files with several names (hard links), one entry a name: identity of the file, number of its names, size in bytes."""
    newest: float = 0.0
    """When something in it was last written, in seconds since 1970."""


@dataclass(frozen=True)
class AttemptDirectory:
    """A directory that an attempt wrote."""

    path: str
    """Relative to the prefix."""
    name: str
    """Of the step."""
    digest16: str
    attempt: int


def contents(store: Store, relative: str) -> Contents:
    """Returns what lies below a directory of the store, or the one file of that path."""
    found = Contents()
    full = store.url(relative)
    if not store.is_local:
        with reached(full):
            listed = store.fs.find(full, detail=True)
        for info in listed.values():
            found.files += 1
            found.bytes_alone += info["size"]
            found.newest = max(found.newest, _written(info))
        return found
    own = os.lstat(full)
    if not stat.S_ISDIR(own.st_mode):
        _count(found, own)
        return found
    found.newest = own.st_mtime  # of a directory without files
    for entry in _walk(full):
        _count(found, entry.stat(follow_symlinks=False))
    return found


def _count(found: Contents, seen: os.stat_result) -> None:
    found.files += 1
    found.newest = max(found.newest, seen.st_mtime)
    if seen.st_nlink == 1:
        found.bytes_alone += seen.st_size
    else:
        found.shared.append(((seen.st_dev, seen.st_ino), seen.st_nlink, seen.st_size))


def _written(info: dict[str, Any]) -> float:
    """Returns when an object was written; filesystems of fsspec say so under different names."""
    for key in ("LastModified", "updated", "mtime", "created", "timeCreated"):
        said = info.get(key)
        if isinstance(said, str):
            said = datetime.fromisoformat(said)
        if isinstance(said, datetime):
            return said.timestamp()
        if isinstance(said, (int, float)):
            return float(said)
    return float("inf")  # nothing is known, so it counts as new


def _walk(full: str) -> Iterator[os.DirEntry[str]]:
    """Yields every file below a local directory; one that goes away meanwhile is left out."""
    try:
        entries = sorted(os.scandir(full), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        else:
            yield entry


def attempt_directories(store: Store) -> list[AttemptDirectory]:
    """Returns the directories of all attempts in the store, sorted by path."""
    if store.is_local:
        return list(_local_attempts(store.prefix, ""))
    base = store.fs._strip_protocol(store.url("")).rstrip("/") + "/"
    found = {}
    with reached(store.prefix):
        listed = store.fs.find(base)
    for full in listed:
        relative = full[len(base) :]
        if not relative.startswith(f"{layout.CONTROL}/"):
            attempt = _attempt_of(relative)
            if attempt is not None:
                found[attempt.path] = attempt
    return [found[path] for path in sorted(found)]


def _attempt_of(relative: str) -> AttemptDirectory | None:
    parts = relative.split("/")
    for index in range(len(parts) - 2):
        parsed = layout.parse_output_name(parts[index])
        attempt = layout.parse_attempt_name(parts[index + 1])
        if parsed is not None and attempt is not None:
            name = "/".join([*parts[:index], parsed[0]])
            return AttemptDirectory("/".join(parts[: index + 2]), name, parsed[1], attempt)
    return None


def _local_attempts(prefix: str, relative: str) -> Iterator[AttemptDirectory]:
    try:
        entries = sorted(os.scandir(os.path.join(prefix, relative)), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    parsed = layout.parse_output_name(os.path.basename(relative))
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False) or (not relative and entry.name == layout.CONTROL):
            continue
        path = f"{relative}/{entry.name}" if relative else entry.name
        attempt = layout.parse_attempt_name(entry.name)
        if parsed is not None and attempt is not None:
            name = "/".join([*relative.split("/")[:-1], parsed[0]])
            yield AttemptDirectory(path, name, parsed[1], attempt)
        elif parsed is None:
            yield from _local_attempts(prefix, path)


def temporary_files(store: Store) -> list[str]:
    """Returns the unfinished files that killed processes left, relative to the prefix; object stores leave none."""
    if not store.is_local:
        return []
    start = len(store.prefix.rstrip("/")) + 1
    return [entry.path[start:] for entry in _walk(store.prefix) if entry.name.startswith(layout.TEMPORARY)]


def remove(store: Store, relative: str) -> tuple[int, int]:
    """Removes a directory and all in it, or a file.

    Returns:
        The files removed, and the bytes that this freed: a file counts when its last name goes.
    """
    if not store.is_local:
        gone = contents(store, relative)
        with reached(store.url(relative)):
            store.fs.rm(store.url(relative), recursive=True)
        return gone.files, gone.bytes_alone
    full = store.url(relative)
    if not os.path.isdir(full) or os.path.islink(full):
        return 1, _unlink(full)
    files = freed = 0
    for folder, _, names in os.walk(full, topdown=False):
        for name in sorted(names):
            files, freed = files + 1, freed + _unlink(os.path.join(folder, name))
        for each in os.scandir(folder):  # links to directories, which os.walk takes for directories
            if each.is_symlink():
                files, freed = files + 1, freed + _unlink(each.path)
        os.rmdir(folder)
    return files, freed


def _unlink(full: str) -> int:
    try:
        seen = os.lstat(full)
        os.unlink(full)
    except FileNotFoundError:
        return 0  # somebody else was faster
    return seen.st_size if seen.st_nlink == 1 else 0
