"""How people name a store, and paths in it."""

import os
import posixpath
import re

from marin_exec.errors import StoreError

MEMORY = "memory://"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def canonical_prefix(prefix: str) -> str:
    """Returns the one form of a prefix that the store uses: an absolute path, or memory://name.

    Raises:
        StoreError: the scheme is not supported, or the prefix is not one.
    """
    match = _SCHEME.fullmatch(prefix)
    scheme, path = match.groups() if match else ("file", prefix)
    if not prefix or "\0" in prefix:
        raise StoreError(f"store {prefix!r}: not a prefix; give a directory, file:///directory or memory://name")
    if scheme == "memory":
        return MEMORY + posixpath.normpath("/" + path).lstrip("/")
    if scheme != "file":
        raise StoreError(
            f"store {prefix}: not supported yet; file:// and memory:// are. Give one of these as the prefix"
        )
    if match and not path.startswith("/"):
        raise StoreError(f"store {prefix}: a file:// prefix needs an absolute path, as in file:///data/store")
    return os.path.abspath(path)


def is_full(path: str) -> bool:
    """Whether a path says by itself where it is: absolute, or a URL."""
    return path.startswith("/") or _SCHEME.fullmatch(path) is not None


def relative_path(prefix: str, path: str) -> str:
    """Returns a path relative to a canonical prefix; see `Store.relative`."""
    scheme = match[1] if (match := _SCHEME.fullmatch(path)) else None
    if prefix.startswith(MEMORY):
        base = prefix if prefix.endswith("/") else prefix + "/"
        inside, outside = path.removeprefix(base), scheme is not None and not path.startswith(base)
    elif scheme not in (None, "file"):
        inside, outside = path, True
    else:
        plain = match[2] if match else path
        found = _below(prefix, os.path.abspath(plain)) or _below(os.path.realpath(prefix), os.path.realpath(plain))
        inside, outside = found or plain, found is None and os.path.isabs(plain)
    inside = posixpath.normpath(inside)
    if outside or inside.startswith(("/", "../")) or inside in ("", ".", ".."):
        raise StoreError(f"{path}: not in the store {prefix}; give a path below it, or another --prefix")
    return inside


def _below(directory: str, path: str) -> str | None:
    start = directory.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None
