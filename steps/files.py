"""Files and directories of inputs and outputs, the same on a local disk and on an object store: what steps do with them.

A path is a local path or a URL (gs://, s3://, whatever fsspec knows), opened by `marin_exec.open_file`. A local path is used
as it is: nothing is copied, and nothing is slower than without this module.
"""

import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marin_exec.files import filesystem


def read_bytes(path: str) -> bytes:
    """Returns a file's content.

    Raises:
        FileNotFoundError: there is no such file.
    """
    files, inner = filesystem(path)
    return files.cat_file(inner)


def write_bytes(path: str, data: bytes) -> None:
    """Writes a whole file."""
    files, inner = filesystem(path)
    files.pipe_file(inner, data)


def write_json(path: str, value: Any) -> None:
    """Writes a value as JSON with an indent of one, in the order of its keys: the same bytes for the same value."""
    write_bytes(path, json.dumps(value, indent=1).encode())


def put_file(local: Path, path: str) -> None:
    """Copies a local file to a path, without holding it in memory."""
    files, inner = filesystem(path)
    files.put_file(str(local), inner)


def names_in(path: str, *, only_directories: bool = False) -> list[str]:
    """Returns the names of what lies directly in a directory, sorted; [] if there is no such directory."""
    files, root = filesystem(path)
    root = root.rstrip("/")
    try:
        entries = files.ls(root, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = {entry["name"].rstrip("/"): entry["type"] for entry in entries}
    found.pop(root, None)  # a file is listed as itself; so is an empty object that stands for the directory
    return sorted(
        name.rsplit("/", 1)[-1] for name, type in found.items() if type == "directory" or not only_directories
    )


def is_local(path: str) -> bool:
    """Returns whether a path is on a local disk, so that any library can open it."""
    return getattr(filesystem(path)[0], "local_file", False)


@contextmanager
def local_copy(path: str) -> Generator[str]:
    """Yields a local directory with the content of the directory `path`, for libraries that read local files only.

    A local one is yielded itself. Else everything in it is fetched to the temporary folder (TMPDIR), and removed at the end.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    files, root = filesystem(path)
    if is_local(path):
        if not Path(root).is_dir():
            raise FileNotFoundError(f"{path}: no such directory")
        yield root
        return
    found = files.find(root)
    if not found:
        raise FileNotFoundError(f"{path}: no such directory")
    with tempfile.TemporaryDirectory(prefix="marin-copy-") as local:
        base = files._strip_protocol(root).rstrip("/") + "/"
        files.get(found, [f"{local}/{each.removeprefix(base)}" for each in found])
        yield local


@contextmanager
def local_folder(path: str) -> Generator[str]:
    """Yields a local directory whose content is the directory `path` once the block has ended well.

    For libraries that write local files only. A local path is made and yielded itself. Else the content waits in the
    temporary folder (TMPDIR) and is put there at the end; after an exception nothing is.
    """
    files, root = filesystem(path)
    if is_local(path):
        Path(root).mkdir(parents=True, exist_ok=True)
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="marin-folder-", ignore_cleanup_errors=True) as local:
        yield local
        written = sorted(each for each in Path(local).rglob("*") if each.is_file())
        files.put([str(each) for each in written], [f"{root}/{each.relative_to(local)}" for each in written])
