"""Registered roots: what experiments reach, so that cleaning up never takes another project's data."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from marin_exec.records import FORMAT, Document
from marin_exec.store import layout
from marin_exec.store.attempt_log import utc_now
from marin_exec.store.conditional import AlreadyExists
from marin_exec.store.reaching import reached
from marin_exec.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Root(Document):
    """One registered set of steps; what they were made from is kept with them."""

    format: int = FORMAT
    name: str
    """Of the experiment or pin, for display."""
    digests: tuple[str, ...]
    reaches: tuple[str, ...] = ()
    """What these steps need, whether it was ever run or not: a step that never began has no record that would say it."""
    registered: str
    """UTC, ISO 8601."""
    names: tuple[str, ...] = ()
    """Of the steps of `digests`, in their order, for display: one that never ran has no record that would say it."""


def register_root(
    store: Store, name: str, digests: Iterable[str], reaches: Iterable[str] = (), names: Mapping[str, str] | None = None
) -> bool:
    """Registers steps as reachable under a name; if that was done before, nothing is written.

    Args:
        reaches: all that they need.
        names: of the steps, by digest, for display.

    Returns:
        Whether it was new. A plan that was made before then may count on data that is being cleaned up: make it again.
    """
    chosen, needed = _sorted_apart(digests, reaches)
    path = layout.root(root_id(name, chosen, needed))
    if store.files.read(path) is not None:
        return False
    named = tuple(names[digest] for digest in chosen) if names else ()
    root = Root(name=name, digests=chosen, reaches=needed, registered=utc_now(), names=named)
    try:
        store.files.create(path, root.to_bytes())
    except AlreadyExists:  # another one's, or ours and the answer was lost
        found = store.files.read(path)
        return found is not None and found.data == root.to_bytes()
    return True


def _sorted_apart(digests: Iterable[str], reaches: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    chosen = set(digests)
    return tuple(sorted(chosen)), tuple(sorted(set(reaches) - chosen))


def root_id(name: str, digests: Iterable[str], reaches: Iterable[str] = ()) -> str:
    """Returns the id of the root that `register_root` makes of this: 64 hex digits."""
    chosen, needed = _sorted_apart(digests, reaches)
    identity = ["marin-exec root", name, chosen, *([needed] if needed else [])]
    return hashlib.sha256(json.dumps(identity).encode("ascii")).hexdigest()


def root_ids(store: Store) -> list[str]:
    """Returns the ids of all registered roots, in one listing."""
    return [name.removesuffix(".json") for name in store.files.names(layout.ROOTS) if name.endswith(".json")]


def read_root(store: Store, root_id: str) -> Root | None:
    """Returns a registered root, or None if there is none of that id."""
    path = layout.root(root_id)
    found = store.files.read(path)
    return Root.from_bytes(found.data, store.url(path)) if found is not None else None


def roots(store: Store) -> dict[str, Root]:
    """Returns all registered roots by id, sorted by name and then the newest first."""
    ids = root_ids(store)
    read = store.look_up_all(lambda root_id: read_root(store, root_id), ids)
    found = {root_id: root for root_id, root in zip(ids, read, strict=True) if root is not None}
    newest_first = sorted(found.items(), key=lambda item: item[1].registered, reverse=True)
    return dict(sorted(newest_first, key=lambda item: item[1].name))


def drop_root(store: Store, root_id: str) -> None:
    """Forgets a root; what only it reached may be cleaned up."""
    path = store.url(layout.root(root_id))
    if store.is_local:
        os.unlink(path)
    else:
        with reached(path):
            store.fs.rm_file(path)
