"""Which conditional files and which fsspec filesystem serve a prefix. The clients import what is heavy when they are used."""

import logging
from typing import Any

from marin_exec.store import clients, gcs, prefix, reaching, s3
from marin_exec.store.conditional import ConditionalFiles
from marin_exec.store.local import LocalFiles
from marin_exec.store.memory import MemoryFiles
from marin_exec.store.unsafe import UnsafeFiles


def conditional_files(base: str) -> ConditionalFiles:
    """Returns the files below a canonical prefix that ends in "/"."""
    scheme, path = prefix.split_url(base)
    bucket, _, below = path.partition("/")
    match scheme:
        case "file":
            return LocalFiles(base)
        case "memory":
            return MemoryFiles(base)
        case "gs":
            return gcs.GcsFiles(bucket, below)
        case "s3":
            return s3.S3Files(bucket, below)
        case _:
            return UnsafeFiles(filesystem(scheme), base)


def filesystem(scheme: str) -> Any:
    """Returns this process's fsspec filesystem of a scheme, without listing caches."""
    return clients.shared(f"fsspec {scheme}", lambda: _make_filesystem(scheme), gcs.ENVIRONMENT + s3.ENVIRONMENT)


def _make_filesystem(scheme: str) -> Any:
    if scheme == "gs":  # it logs each error that it also raises, with its traceback: for who asks for its log
        logging.getLogger("gcsfs").addHandler(logging.NullHandler())

    options = {"auto_mkdir": True} if scheme == "file" else {}
    return reaching.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **options)
