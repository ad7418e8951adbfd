"""How people name a store, and paths in it.

The one form of a prefix is an absolute path, or scheme://bucket/path without a slash at its end.
"""

import os
import posixpath
import re

from marin_exec.errors import StoreError
from marin_exec.secrets import redact, secret_in

UNSAFE = "MARIN_UNSAFE_FILESYSTEM"
OBJECT_STORES = {"gs": "gs", "gcs": "gs", "s3": "s3", "s3a": "s3"}
"""The schemes of stores with conditional writes, and the one that stands for each."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_ALLOWED = "a directory, file:///directory, gs://bucket/path, s3://bucket/path, or memory://name"


def split_url(text: str) -> tuple[str, str]:
    """Returns the scheme in lower case ("file" for a plain path) and what follows it."""
    match = _URL.fullmatch(text)
    return (match[1].lower(), match[2]) if match else ("file", text)


def canonical_prefix(prefix: str) -> str:
    """Returns the one form of a prefix.

    Raises:
        StoreError: the scheme is not supported, or the prefix is not one.
    """
    if not prefix or "\0" in prefix:
        raise StoreError(f"store {prefix!r}: not a prefix; give {_ALLOWED}")
    scheme, path = split_url(prefix)
    if scheme != "file" and secret_in(f"{scheme}://{path}") is not None:
        raise StoreError(
            f"store {redact(f'{scheme}://{path}')}: holds credentials, and a prefix is stored and shown; give them as the store's "
            "tools take them, for S3 in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if scheme == "memory":
        return "memory://" + posixpath.normpath("/" + path).lstrip("/")
    if scheme == "file":
        if path != prefix and not path.startswith("/"):
            raise StoreError(f"store {prefix}: a file:// prefix needs an absolute path, as in file:///data/store")
        return os.path.abspath(path)
    if scheme not in OBJECT_STORES and scheme != os.environ.get(UNSAFE):
        raise StoreError(
            f"store {prefix}: {scheme}:// has no conditional writes that a store could rest on; give {_ALLOWED}. "
            f"{UNSAFE}={scheme} takes it all the same: then two drivers at once may both run a step, or lose a result"
        )
    bucket, _, below = path.partition("/")
    if not bucket:
        raise StoreError(f"store {prefix}: names no bucket; give {scheme}://bucket/path")
    below = posixpath.normpath("/" + below).lstrip("/")
    return f"{OBJECT_STORES.get(scheme, scheme)}://{bucket}" + (f"/{below}" if below else "")


def is_full(path: str) -> bool:
    """Whether a path says by itself where it is: absolute, or a URL."""
    return path.startswith("/") or _URL.fullmatch(path) is not None


def relative_path(prefix: str, path: str) -> str:
    """Returns a path relative to a canonical prefix; see `Store.relative`."""
    scheme, plain = split_url(path)
    is_url = plain != path
    if "://" not in prefix:
        inside, outside = _relative_to_directory(prefix, plain) if scheme == "file" else (path, True)
    elif is_url:
        found = _below(prefix, canonical_prefix(path)) if scheme in (*OBJECT_STORES, split_url(prefix)[0]) else None
        inside, outside = found or path, found is None
    else:
        inside, outside = path, False
    inside = posixpath.normpath(inside)
    if outside or inside.startswith(("/", "../")) or inside in ("", ".", ".."):
        raise StoreError(f"{path}: not in the store {prefix}; give a path below it, or another --prefix")
    return inside


def _relative_to_directory(directory: str, path: str) -> tuple[str, bool]:
    """Returns a path relative to a directory, and whether it lies outside; one relative to it already is as it is."""
    found = _below(directory, os.path.abspath(path)) or _below(os.path.realpath(directory), os.path.realpath(path))
    return found or path, found is None and os.path.isabs(path)


def _below(directory: str, path: str) -> str | None:
    start = directory if directory.endswith("/") else directory + "/"
    return path[len(start) :] if path.startswith(start) else None
