"""Early cutoff: which finished steps were made from the same content, by whatever recipe that came about.

A content key is a step's identity with each dependency replaced by what it held: its output digest. An entry says where
to look and proves nothing: it is made just before the commit that may yet fail, and never removed, so the head and the
record that it names decide.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from marin_exec.encoding import digest_of_tree
from marin_exec.errors import StoreError
from marin_exec.records import FORMAT, DependencyRecord, Document, Link, Record
from marin_exec.store import layout
from marin_exec.store.conditional import AlreadyExists
from marin_exec.store.store import Store
from marin_exec.trees import with_content

DOMAIN = "marin-content/1"
SAME_CONTENT = "its inputs hold the same content"

Held = Mapping[tuple[str, str | None], str]
"""The output digest of each dependency, by its digest and the milestone that is needed of it (None: the whole output)."""


@dataclass(frozen=True, kw_only=True)
class ContentEntry(Document):
    """That a step may be found that was made from some content."""

    format: int = FORMAT
    digest: str
    name: str
    """The step's display name, for people who look at the file."""


def held_by(dependencies: tuple[DependencyRecord, ...]) -> dict[tuple[str, str | None], str]:
    """Returns what a record's dependencies held when they were bound."""
    return {(each.digest, each.milestone): each.output_digest for each in dependencies}


def content_key(tree: Mapping[str, Any], held: Held) -> str:
    """Returns the content key of a step, or "" if it has no dependencies, or it is not known what one of them held.

    Args:
        tree: the step's identity.
        held: what each of its dependencies holds.
    """
    if not held or not all(held.values()):
        return ""
    return digest_of_tree({**tree, "config": with_content(tree["config"], held)}, DOMAIN)


def note_content(store: Store, record: Record) -> None:
    """Makes the step of a record that is about to be committed findable: by its content, or by what it is linked to."""
    if record.link is not None:
        path = layout.link(record.link.digest, record.digest) if record.link.digest != record.digest else ""
    else:
        path = layout.content(record.content_key, record.digest) if record.content_key else ""
    if path:
        # Contents are equal whoever writes it, and that it is there already is as good.
        with contextlib.suppress(AlreadyExists):
            store.files.create(path, ContentEntry(digest=record.digest, name=record.name).to_bytes())


def known_keys(store: Store) -> frozenset[str]:
    """Returns all content keys that something may be found by, in one listing: for plans, which ask for many."""
    return frozenset(store.files.names(layout.CONTENT))


def linked_to(store: Store, digest: str) -> list[str]:
    """Returns the digests of steps that were linked to an output of this one, if their commits happened."""
    names = (name.removesuffix(".json") for name in store.files.names(layout.links_directory(digest)))
    return [name for name in names if layout.is_digest(name)]


def made_from(store: Store, key: str, serves: Callable[[Record], bool]) -> Record | None:
    """Returns the current record of a step that was made from this content, and whose data is there; None if there is none.

    Args:
        key: a content key; "" finds nothing.
        serves: what else is asked of the record; asked before its data is looked at.
    """
    if not key:
        return None
    for name in store.files.names(layout.content_directory(key)):
        digest = name.removesuffix(".json")
        record = current_or_none(store, digest) if layout.is_digest(digest) else None
        if record is None or _points_elsewhere(record) or record.content_key != key or not serves(record):
            continue
        if not store.missing_files(record):
            return record
    return None


def _points_elsewhere(record: Record) -> bool:
    """Whether a record is a link to another step; one that a person blessed as it was points at its own step."""
    return record.link is not None and record.link.digest != record.digest


def current_or_none(store: Store, digest: str) -> Record | None:
    """Returns a step's current record; None if it has none, or it is damaged: whoever wants that step itself is told."""
    try:
        return store.current(digest)
    except StoreError:
        return None


def link_to(record: Record, how: str, reason: str, by: str = "") -> Link:
    """Returns a link to a record's output, or to the original if the record is a link itself."""
    target = record.link
    return Link(
        digest=target.digest if target else record.digest,
        attempt=target.attempt if target else record.attempt,
        chain=target.chain if target else record.chain,
        name=target.name if target else record.name,
        output_digest=record.output_digest,
        how="blessed" if how == "blessed" else "content",
        reason=reason,
        by=by,
    )


def link_broken(link: Link, current: Record | None, problem: str = "") -> str:
    """Returns why a link does not hold any more; "" if it does. Whether the data is there is not looked at.

    Args:
        current: the current record of the step that it points at.
        problem: why there is none.
    """
    original = f"{link.name} ({link.digest[:16]})"
    if current is None:
        return f"linked to {original}, " + (
            f"whose record is lost: {problem}" if problem else "which has no result any more"
        )
    if current.output_digest != link.output_digest:
        change = f"{link.output_digest[:16]} -> {current.output_digest[:16]}"
        return f"linked to {original}, which now holds other content ({change})"
    return ""
