"""What lies in an output's directory: its files, with their sizes and checksums.

Checksums are xxh3-128 (about 10 GB/s, so a disk is the limit) on every filesystem, and so is the digest of an output: the
checksums that object stores offer differ with how a file was uploaded. They find damage, and are no defence against
somebody who forges files. See docs/decisions/0011.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from marin_exec.errors import StepFailed
from marin_exec.records import FileEntry
from marin_exec.store.layout import TEMPORARY
from marin_exec.store.reaching import reached

_BLOCK_BYTES = 1 << 20
_REMOTE_BLOCK_BYTES = 1 << 24  # of one request; what is smaller is read by one
_REMOTE_READERS = 8  # each may hold such a block


def scan(fs: Any, attempt_dir: str) -> tuple[FileEntry, ...]:
    """Returns all files below a directory, sorted by path, each read once.

    Args:
        fs: the fsspec filesystem that has it.
        attempt_dir: full path or URL.

    Raises:
        StepFailed: there is something that can't be kept: a link that leads out of the directory or to a directory, a
            pipe, a socket. The message names it.
    """
    if not is_local(fs):
        return _entries(fs, attempt_dir, remote_sizes(fs, attempt_dir))
    return _entries(fs, attempt_dir, dict.fromkeys(_walk(attempt_dir, os.path.realpath(attempt_dir), "")))


def scan_paths(fs: Any, attempt_dir: str, paths: Sequence[str]) -> tuple[FileEntry, ...]:
    """Like `scan`, but only of these files and of all files below these directories, relative to `attempt_dir`.

    Raises:
        StepFailed: one of them does not exist.
    """
    chosen: dict[str, int | None] = {}
    for path in paths:
        found = _files_at(fs, attempt_dir, path)
        if found is None:
            raise StepFailed(f"{attempt_dir}/{path}: does not exist; write it before it is committed or published")
        chosen |= found
    return _entries(fs, attempt_dir, chosen)


def remote_sizes(fs: Any, directory: str, below: str = "") -> dict[str, int]:
    """Returns the size in bytes of each file of a directory on a filesystem that is not local, by its path in there.

    Args:
        directory: full URL.
        below: only what is at this path in it: one file, or all below it.
    """
    base = fs._strip_protocol(directory).rstrip("/") + "/"
    where = f"{directory}/{below}".rstrip("/")
    with reached(where):
        found = fs.find(where, detail=True)
    return {full[len(base) :]: info["size"] for full, info in found.items() if TEMPORARY not in full}


def checksum_of(fs: Any, full: str, size_bytes: int | None = None) -> tuple[int, str]:
    """Reads a file through; returns its size in bytes and its checksum.

    Args:
        size_bytes: what a listing said; a small file is then read by one request.
    """
    import xxhash

    hasher, read_bytes = xxhash.xxh3_128(), 0
    with reached(full):
        for block in _blocks(fs, full, size_bytes):
            hasher.update(block)
            read_bytes += len(block)
    return read_bytes, f"xxh3-128:{hasher.hexdigest()}"


def is_local(fs: Any) -> bool:
    return getattr(fs, "local_file", False)


def _entries(fs: Any, directory: str, sizes: Mapping[str, int | None]) -> tuple[FileEntry, ...]:
    def entry(path: str) -> FileEntry:
        return FileEntry(path, *checksum_of(fs, f"{directory}/{path}", sizes[path]))

    if is_local(fs) or len(sizes) < 2:
        return tuple(map(entry, sorted(sizes)))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_REMOTE_READERS) as threads:
        return tuple(threads.map(entry, sorted(sizes)))


def _blocks(fs: Any, full: str, size_bytes: int | None) -> Iterator[bytes]:
    if size_bytes is not None and size_bytes <= _REMOTE_BLOCK_BYTES:
        yield fs.cat_file(full)
        return
    remote = {"block_size": _REMOTE_BLOCK_BYTES, "cache_type": "readahead"}
    with open(full, "rb", buffering=0) if is_local(fs) else fs.open(full, "rb", **remote) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _files_at(fs: Any, top: str, path: str) -> dict[str, int | None] | None:
    """Returns the files at a path, with the sizes that a listing said; None if there is nothing."""
    full = f"{top}/{path}"
    if not is_local(fs):
        return {**remote_sizes(fs, top, path)} or None
    if os.path.isdir(full):
        return dict.fromkeys(_walk(top, os.path.realpath(top), path + "/"))
    if os.path.isfile(full):
        _check_inside(os.path.realpath(top), full)
        return {path: None}
    return None


def _walk(top: str, real_top: str, below: str) -> Iterator[str]:
    """Yields the path, relative to `top`, of each file in its sub-directory `below` ("" or ending in "/"), unsorted."""
    for entry in os.scandir(f"{top}/{below}"):
        path = below + entry.name
        if entry.name.startswith(TEMPORARY):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(top, real_top, path + "/")
        elif entry.is_file(follow_symlinks=False):
            yield path
        elif entry.is_symlink():
            _check_inside(real_top, entry.path)
            yield path
        else:
            mode = stat.filemode(entry.stat(follow_symlinks=False).st_mode)
            raise StepFailed(
                f"{entry.path}: neither a file nor a directory ({mode}); remove it before the step returns"
            )


def _check_inside(real_top: str, path: str) -> None:
    target = os.path.realpath(path)
    if not os.path.isfile(target) or not target.startswith(real_top + "/"):
        raise StepFailed(
            f"{path}: a link to {target}; an output may only link to regular files inside itself, "
            "because it must stay whole when other things are moved. Copy the file instead"
        )
