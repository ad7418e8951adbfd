"""The manifest of files that lie somewhere: what they are, told by relative path, size and checksum."""

import hashlib
import json
from collections.abc import Iterable
from typing import NamedTuple

import xxhash

from marin_exec import ConfigError, IdentityMismatch, open_file
from marin_exec.files import filesystem

_CHUNK_BYTES = 1 << 22


class FileEntry(NamedTuple):
    """One file of a manifest."""

    name: str
    """Path relative to the root."""
    num_bytes: int
    checksum: str
    """xxh3-128 of the content, 32 hex digits."""


def found_files(path: str, suffixes: Iterable[str] = ("",)) -> dict[str, str]:
    """Returns the files of a file, folder (recursively) or glob pattern: full URL by path relative to its root.

    Args:
        path: local path or fsspec URL, e.g. "data/*.jsonl.gz", "hf://datasets/owner/name/data". What exists under that
            very name is meant, whatever characters it has; else a path with "*", "?" or "[" is a pattern.
        suffixes: only names that end so; a path that names one file is taken whatever it is called.

    Raises:
        ConfigError: nothing is there, or nothing with such a name.
    """
    files, root = filesystem(path)
    endings = tuple(suffixes)
    if files.isfile(root):
        return {root.rsplit("/", 1)[-1]: files.unstrip_protocol(root)}
    if any(character in root for character in "*?[") and not files.exists(root):
        matches = sorted(files.glob(root))
        found = [each for match in matches for each in (files.find(match) if files.isdir(match) else [match])]
        parts = root.split("/")
        first = next(index for index, part in enumerate(parts) if any(character in part for character in "*?["))
        root = "/".join(parts[:first])
    else:
        found = files.find(root) if files.exists(root) else []
    chosen = sorted(each for each in found if each.endswith(endings))
    if not chosen:
        detail = f"{len(found)} files are there, none ending in {', '.join(endings)}" if found else "no file is there"
        raise ConfigError(f"source {path}: {detail}; give an existing file, folder or glob pattern, and its format")
    prefix = root.rstrip("/") + "/" if root else ""
    return {each.removeprefix(prefix): files.unstrip_protocol(each) for each in chosen}


def manifest_entries(found: dict[str, str]) -> list[FileEntry]:
    """Returns size and checksum of files, by relative path as `found_files` gives them; reads every byte."""
    entries = []
    for name, url in sorted(found.items()):
        checksum, size = xxhash.xxh3_128(), 0
        with open_file(url, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                checksum.update(chunk)
                size += len(chunk)
        entries.append(FileEntry(name, size, checksum.hexdigest()))
    return entries


def entries_digest(entries: list[FileEntry]) -> str:
    """Returns the SHA-256, in hex, of the sorted JSON lines [relative path, bytes, xxh3-128]."""
    lines = [json.dumps(list(entry)) + "\n" for entry in sorted(entries)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def manifest_digest(path: str, suffixes: Iterable[str] = ("",)) -> str:
    """Returns the digest that stands as a literal in an experiment which adopts the files at `path`.

    Args:
        path: as for `found_files`.
        suffixes: `FileFormat.suffixes()` of the format that the adopting step reads.
    """
    return entries_digest(manifest_entries(found_files(path, suffixes)))


def check_manifest(path: str, entries: list[FileEntry], expected: str) -> None:
    """Checks files against the digest that the experiment states.

    Raises:
        IdentityMismatch: the files are not those.
    """
    digest = entries_digest(entries)
    if digest != expected:
        raise IdentityMismatch(
            f"source {path}: its {len(entries)} files have manifest {digest}, but the experiment states {expected}; bring "
            f"back the stated files, or state the new digest (that makes it another source)"
        )
