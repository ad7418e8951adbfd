"""What an output consists of: its files with sizes and checksums, and the digest of all that.

The digest does not depend on names of attempts, on time or on the order in which files were written, so two equal runs
have equal ones. Checksums are xxh3-128 (about 10 GB/s, so a disk is the limit): they find damage, and are no defence
against somebody who forges files.
"""

import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from marin_exec.errors import StepFailed, StoreError
from marin_exec.records import FileEntry
from marin_exec.store.layout import TEMPORARY
from marin_exec.store.pieces import Piece
from marin_exec.store.results import plain_result, split_result
from marin_exec.store.store import Store

__all__ = ["differing_files", "output_digest", "plain_result", "scan", "scan_paths", "split_result", "take_up"]

_BLOCK_BYTES = 1 << 20


def scan(fs: Any, attempt_dir: str) -> tuple[FileEntry, ...]:
    """Returns all files below a directory, sorted by path, each read once.

    Args:
        fs: the fsspec filesystem that has it.
        attempt_dir: full path or URL.

    Raises:
        StepFailed: there is something that can't be kept: a link that leads out of the directory or to a directory, a
            pipe, a socket. The message names it.
    """
    return _entries(fs, attempt_dir, sorted(_walk(fs, attempt_dir, "")))


def scan_paths(fs: Any, attempt_dir: str, paths: Sequence[str]) -> tuple[FileEntry, ...]:
    """Like `scan`, but only of these files and of all files below these directories, relative to `attempt_dir`.

    Raises:
        StepFailed: one of them does not exist.
    """
    chosen: set[str] = set()
    for path in paths:
        full = f"{attempt_dir}/{path}"
        if fs.isdir(full):
            chosen.update(_walk(fs, attempt_dir, path + "/"))
        elif fs.isfile(full):
            if _is_local(fs):
                _check_inside(os.path.realpath(attempt_dir), full)
            chosen.add(path)
        else:
            raise StepFailed(f"{full}: does not exist; write it before it is committed or published")
    return _entries(fs, attempt_dir, sorted(chosen))


def _entries(fs: Any, directory: str, paths: list[str]) -> tuple[FileEntry, ...]:
    entries = []
    for path in paths:
        size_bytes, checksum = _read_through(fs, f"{directory}/{path}")
        entries.append(FileEntry(path, size_bytes, checksum))
    return tuple(entries)


def _read_through(fs: Any, full: str) -> tuple[int, str]:
    import xxhash

    hasher, size_bytes = xxhash.xxh3_128(), 0
    with open(full, "rb", buffering=0) if _is_local(fs) else fs.open(full, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            hasher.update(block)
            size_bytes += len(block)
    return size_bytes, f"xxh3-128:{hasher.hexdigest()}"


def _is_local(fs: Any) -> bool:
    return getattr(fs, "local_file", False)


def _walk(fs: Any, top: str, below: str) -> Iterator[str]:
    """Yields the path, relative to `top`, of each file in its sub-directory `below` ("" or ending in "/"), unsorted."""
    if _is_local(fs):
        yield from _walk_local(top, os.path.realpath(top), below)
        return
    base = fs._strip_protocol(top).rstrip("/") + "/"
    for full in fs.find(f"{top}/{below}".rstrip("/")):
        if TEMPORARY not in full:
            yield full[len(base) :]


def _walk_local(top: str, real_top: str, below: str) -> Iterator[str]:
    for entry in os.scandir(f"{top}/{below}"):
        path = below + entry.name
        if entry.name.startswith(TEMPORARY):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk_local(top, real_top, path + "/")
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


def output_digest(files: Sequence[FileEntry], result_json: Any, content_digest: str | None = None) -> str:
    """Returns the SHA-256, in hexadecimal, of what an output means.

    Args:
        files: in any order.
        result_json: the result without its measured fields, as `split_result` gives it.
        content_digest: stands for the files where their bytes differ between equal runs.
    """
    if content_digest is None:
        content: Any = sorted([each.path, each.size_bytes, each.checksum] for each in files)
    else:
        content = {"content": content_digest}
    tree = ["marin-exec output 1", content, result_json]
    return hashlib.sha256(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def piece_digest(piece: Piece) -> str:
    """Returns the output digest of a piece: what a step that depends on a milestone is bound to."""
    return output_digest(piece.files, piece.result)


def differing_files(
    store: Store, directory: str, files: Sequence[FileEntry], *, checksums: bool = False
) -> list[tuple[str, str]]:
    """Returns the files that are not as recorded: (path, reason), in the order given.

    Args:
        directory: the attempt's directory, relative to the prefix.
        checksums: read the files too; else only presence and sizes are compared.
    """
    sizes = _sizes(store, store.url(directory), files)
    differing = []
    for entry in files:
        found = sizes.get(entry.path)
        if found is None:
            differing.append((entry.path, "missing"))
        elif found != entry.size_bytes:
            differing.append((entry.path, f"{found} bytes, {entry.size_bytes} recorded"))
        elif checksums:
            _, checksum = _read_through(store.fs, f"{store.url(directory)}/{entry.path}")
            if checksum != entry.checksum:
                differing.append((entry.path, f"checksum {checksum}, {entry.checksum} recorded"))
    return differing


def _sizes(store: Store, directory: str, files: Sequence[FileEntry]) -> dict[str, int]:
    """Returns the size in bytes of each of the files that is there."""
    if not store.is_local:
        base = store.fs._strip_protocol(directory).rstrip("/") + "/"
        return {full[len(base) :]: info["size"] for full, info in store.fs.find(directory, detail=True).items()}
    sizes = {}
    for entry in files:
        try:
            found = os.stat(f"{directory}/{entry.path}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StoreError(f"store {store.prefix}: cannot read {directory}/{entry.path}: {error.strerror}") from error
        if stat.S_ISREG(found.st_mode):
            sizes[entry.path] = found.st_size
    return sizes


def take_up(store: Store, piece: Piece, from_attempt_dir: str, to_attempt_dir: str) -> None:
    """Gives a piece's files a name in another attempt's directory, so that a finished output is one plain directory.

    On a local disk these are hard links, which cost nothing and outlive the first name; a committed file must not be
    written to in place. A file of that name in the new directory is replaced: the committed one stands.

    Args:
        from_attempt_dir: where the piece is, relative to the prefix or in full; so is `to_attempt_dir`.

    Raises:
        StoreError: a file of the piece is missing or has another size; nothing is taken up then.
    """
    source, target = store.url(from_attempt_dir), store.url(to_attempt_dir)
    differing = differing_files(store, source, piece.files)
    if differing:
        path, reason = differing[0]
        raise StoreError(
            f"{source}/{path}: {reason}; piece {piece.name!r} of attempt {piece.attempt} can't be taken up. "
            "Restore the file, or run the step again with --force"
        )
    if source == target:
        return
    for entry in piece.files:
        if store.is_local:
            _link_or_copy(f"{source}/{entry.path}", f"{target}/{entry.path}")
        else:
            store.fs.makedirs(os.path.dirname(f"{target}/{entry.path}"), exist_ok=True)
            store.fs.copy(f"{source}/{entry.path}", f"{target}/{entry.path}")


def _link_or_copy(source: str, target: str) -> None:
    directory = os.path.dirname(target)
    os.makedirs(directory, exist_ok=True)
    temporary = os.path.join(directory, TEMPORARY + secrets.token_hex(8))
    try:
        try:
            os.link(os.path.realpath(source), temporary)
        except OSError:  # another disk, no links there, or too many: a copy is as good
            shutil.copyfile(source, temporary)
        if os.path.exists(target) and os.path.samefile(temporary, target):
            return  # renaming a link over another link of one file would leave both names
        os.replace(temporary, target)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
