"""What an output consists of: its files with sizes and checksums, and the digest of all that.

The digest does not depend on names of attempts, on time, on the order in which files were written or on the kind of
store, so two equal runs have equal ones.
"""

import hashlib
import json
import os
import posixpath
import secrets
import shutil
import stat
from collections.abc import Sequence
from typing import Any

from marin_exec.errors import StoreError
from marin_exec.records import FileEntry
from marin_exec.store.backends import filesystem
from marin_exec.store.layout import TEMPORARY
from marin_exec.store.pieces import Piece
from marin_exec.store.prefix import split_url
from marin_exec.store.reaching import reached
from marin_exec.store.results import plain_result, split_result
from marin_exec.store.scanning import checksum_of, remote_sizes, scan, scan_paths
from marin_exec.store.store import Store

__all__ = ["differing_files", "output_digest", "plain_result", "scan", "scan_paths", "split_result", "take_up"]


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
    if not files:
        return []
    full = store.url(directory)
    scheme, _ = split_url(full)  # data that was adopted may lie on another filesystem than the store
    local = scheme == "file"
    # Without fsspec where it can be: its import takes longer than looking at the files of a thousand steps.
    fs = None if local and not checksums else filesystem(scheme)
    sizes = _local_sizes(full, files) if local else remote_sizes(fs, full)

    def difference(entry: FileEntry) -> str:
        found = sizes.get(entry.path)
        if found is None:
            return "missing"
        if found != entry.size_bytes:
            return f"{found} bytes, {entry.size_bytes} recorded"
        if checksums:
            _, checksum = checksum_of(fs, f"{full}/{entry.path}", None if local else found)
            if checksum != entry.checksum:
                return f"checksum {checksum}, {entry.checksum} recorded"
        return ""

    reasons = store.look_up_all(difference, files) if checksums else map(difference, files)
    return [(entry.path, reason) for entry, reason in zip(files, reasons, strict=True) if reason]


def _local_sizes(directory: str, files: Sequence[FileEntry]) -> dict[str, int]:
    """Returns the size in bytes of each of the files that is there."""
    sizes = {}
    for entry in files:
        try:
            found = os.stat(f"{directory}/{entry.path}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StoreError(f"{directory}/{entry.path}: cannot be read: {error.strerror}") from error
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

    def give(entry: FileEntry) -> None:
        old, new = f"{source}/{entry.path}", f"{target}/{entry.path}"
        if store.is_local:
            _link_or_copy(old, new)
        else:
            store.make_directory(posixpath.dirname(new))
            with reached(new):
                store.fs.cp_file(old, new)  # within the server; `copy` would take a "?" in a name for a pattern

    store.look_up_all(give, piece.files)


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
