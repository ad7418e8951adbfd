"""Registered roots: what experiments reach, so that cleaning up never takes another project's data."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from marin_exec.records import FORMAT, Document
from marin_exec.store import layout
from marin_exec.store.attempt_log import utc_now
from marin_exec.store.conditional import AlreadyExists
from marin_exec.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Root(Document):
    """One registered set of steps; what they were made from is kept with them."""

    format: int = FORMAT
    name: str
    """Of the experiment or pin, for display."""
    digests: tuple[str, ...]
    registered: str
    """UTC, ISO 8601."""


def register_root(store: Store, name: str, digests: Iterable[str]) -> bool:
    """Registers steps as reachable under a name; if that was done before, nothing is written.

    Returns:
        Whether it was new.
    """
    chosen = tuple(sorted(set(digests)))
    identity = json.dumps(["marin-exec root", name, chosen]).encode("ascii")
    path = layout.root(hashlib.sha256(identity).hexdigest())
    if store.files.read(path) is not None:
        return False
    try:
        store.files.create(path, Root(name=name, digests=chosen, registered=utc_now()).to_bytes())
    except AlreadyExists:
        return False
    return True


def roots(store: Store) -> list[Root]:
    """Returns all registered roots, sorted by name and time of registration."""
    paths = [f"{layout.ROOTS}/{name}" for name in store.files.names(layout.ROOTS)]
    read = store.look_up_all(store.files.read, paths)
    found = [Root.from_bytes(each.data, store.url(path)) for path, each in zip(paths, read, strict=True) if each]
    return sorted(found, key=lambda root: (root.name, root.registered))
