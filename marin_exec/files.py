"""Opens paths that steps are given: local ones, and the URLs that they are on an object store.

No listing is ever remembered, so what another process wrote a moment ago is seen. On an object store a file appears when it is
closed, whole.
"""

from typing import IO, Any

_STORES = ("file", "gs", "s3", "memory")


def filesystem(path: str) -> tuple[Any, str]:
    """Returns the fsspec filesystem of a local path or URL, without listing caches, and what the path is called there.

    Where a store may lie, it is the store's own: one client a process, with the same endpoint and credentials.
    """
    scheme = path.partition("://")[0] if "://" in path else "file"
    if scheme in _STORES and "::" not in path:
        from marin_exec.store import backends

        files = backends.filesystem(scheme)
        return files, files._strip_protocol(path)
    import fsspec  # 0.15 s

    return fsspec.core.url_to_fs(path, use_listings_cache=False)


def open_file(path: str, mode: str = "rb") -> IO[Any]:
    """Opens a file of an input or output, wherever the store is; use it as a context manager.

    Args:
        path: a local path, or a URL of any filesystem that fsspec knows.
        mode: "rb" or "wb"; "r" or "w" for text in UTF-8.

    Raises:
        FileNotFoundError: there is no such file to read.
    """
    files, inner = filesystem(path)
    return files.open(inner, mode) if "b" in mode else files.open(inner, mode, encoding="utf-8")
