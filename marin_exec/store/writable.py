"""Whether a store can be written, and keeps the conditions that everything rests on: tried out before a run starts."""

import posixpath
import secrets
from collections.abc import Callable

from marin_exec.errors import StoreError
from marin_exec.store import layout
from marin_exec.store.conditional import AlreadyExists, Conflict
from marin_exec.store.prefix import OBJECT_STORES, split_url
from marin_exec.store.store import Store


def check_writable(store: Store) -> str:
    """Makes and removes an object, and tries two writes in between that must be refused.

    Returns:
        What to warn of; "" if there is nothing.

    Raises:
        StoreError: the store can't be written, or it takes a write whose condition does not hold.
    """
    probe = layout.probe(secrets.token_hex(8))
    try:
        version = _created(store, probe)
        again = {
            "create": lambda: store.files.create(probe, b"again"),
            "replace": lambda: store.files.replace(probe, b"again", _another(version)),
        }
        for what, write in again.items():
            if not _is_refused(write):
                raise StoreError(
                    f"store {store.prefix}: ignores the condition of a write (a {what} took effect that should not), so two "
                    "drivers could overwrite each other's results. Take a store that keeps conditions: a local disk, Google "
                    "Cloud Storage, S3"
                )
        store.files.delete_tree(posixpath.dirname(probe))
    except OSError as error:
        where = error.filename2 or error.filename or store.url(probe)
        raise StoreError(
            f"store {store.prefix}: cannot be written: {error.strerror or error} ({where}). "
            "Give a --prefix (or MARIN_PREFIX) where you may write, on a disk with hard links or in a bucket"
        ) from error
    scheme, _ = split_url(store.prefix)
    if scheme in ("file", "memory", *OBJECT_STORES):
        return ""
    return (
        f"store {store.prefix}: {scheme}:// has no conditional writes; let no two drivers use this store at once, or both may "
        "run a step, or one lose the other's result"
    )


def _created(store: Store, probe: str) -> int | str:
    try:
        return store.files.create(probe, b"probe")
    except AlreadyExists:  # by us: nobody else knows the name, so the answer was lost and the request repeated
        found = store.files.read(probe)
        if found is None:
            raise OSError(f"{store.url(probe)}: was there, and is gone") from None
        return found.version


def _another(version: int | str) -> int | str:
    """Returns a version that an object of this version does not have."""
    return version + 1 if isinstance(version, int) else f'"{"0" * 32}"'


def _is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except (AlreadyExists, Conflict):
        return True
    return False
