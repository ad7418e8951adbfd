"""Early cutoff: which finished steps were made from the same content, by whatever recipe that came about.

A content key is a step's identity with each dependency replaced by what it held: its output digest. An entry says where
to look and proves nothing: it is made just before the commit that may yet fail, and never removed, so the head and the
record that it names decide.
"""

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
    """Makes the step of a record that is about to be committed findable by its content. Links are not: they point on."""
    if not record.content_key or record.link is not None:
        return
    try:
        entry = ContentEntry(digest=record.digest, name=record.name)
        store.files.create(layout.content(record.content_key, record.digest), entry.to_bytes())
    except AlreadyExists:
        return  # made by an earlier attempt


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
        record = _current(store, digest) if layout.is_digest(digest) else None
        if record is None or record.link is not None or record.content_key != key or not serves(record):
            continue
        if not store.missing_files(record):
            return record
    return None


def _current(store: Store, digest: str) -> Record | None:
    try:
        return store.current(digest)
    except StoreError:
        return None  # a damaged record serves nobody; whoever wants that step itself is told


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


def link_broken(store: Store, link: Link) -> str:
    """Returns why a link does not hold any more; "" if it does. Whether the data is there is not looked at."""
    original = f"{link.name} ({link.digest[:16]})"
    try:
        current = store.current(link.digest)
    except StoreError as error:
        return f"linked to {original}, whose record cannot be read: {error}"
    if current is None:
        return f"linked to {original}, which has no result any more"
    if current.output_digest != link.output_digest:
        change = f"{link.output_digest[:16]} -> {current.output_digest[:16]}"
        return f"linked to {original}, which now holds other content ({change})"
    return ""
