"""What of a store is in use: the steps that registered roots and running attempts lead to, and the directories they read.

A step is in use if a root names it, or a step in use was made from it, waited for it, or is linked to its output. Of such
a step two things are kept: its current result, and what the next attempt would take up if it is unfinished.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from marin_exec.errors import StoreError
from marin_exec.records import Head, Record
from marin_exec.store import Root, Store, Versioned, pieces


@dataclass
class InUse:
    """Filled by `reach`."""

    steps: set[str] = field(default_factory=set)
    """Digests."""
    attempts: set[str] = field(default_factory=set)
    """Directories of attempts, relative to the prefix."""
    numbers: dict[str, set[int]] = field(default_factory=dict)
    """By digest, attempts whose directory is kept though its name is not known: one that runs, or whose record is damaged."""
    finished: dict[str, str] = field(default_factory=dict)
    """By digest, when the current result was made: UTC, ISO 8601."""


def of_roots(roots: Iterable[Root]) -> set[str]:
    """Returns the steps that roots name."""
    return {digest for root in roots for digest in (*root.digests, *root.reaches)}


def reach(
    store: Store,
    starts: Collection[str],
    heads: Mapping[str, Versioned[Head]],
    alive: Collection[str],
    in_use: InUse,
) -> InUse:
    """Adds to what is in use everything that some steps lead to.

    Args:
        starts: digests.
        heads: of every step of the store.
        alive: digests of the steps that somebody runs right now.

    Raises:
        StoreError: the store cannot be read, so it is not known what is in use.
    """
    wholes = {digest[:16]: digest for digest in heads}
    stack = list(starts)
    while stack:
        digest = stack.pop()
        if digest in in_use.steps:
            continue
        in_use.steps.add(digest)
        versioned = heads.get(digest)
        if versioned is None:
            continue
        for record in _records(store, digest, versioned.data, digest in alive, in_use):
            stack.extend(bound.digest for bound in (*record.dependencies, *record.after, *record.first_after))
            stack.extend(_step_that_wrote(store, record, wholes, in_use))
    return in_use


def _records(store: Store, digest: str, head: Head, running: bool, in_use: InUse) -> list[Record]:
    """Returns what is known of the attempts of a step that count, and notes their directories."""
    found = []
    if head.current is not None:
        record = store.readable_record(digest, head.current)
        if record is None:  # it may be restored, and what it was made from stands in the log too
            in_use.numbers.setdefault(digest, set()).add(head.current)
            record = store.begun_record(digest, head.current)
        else:
            in_use.finished[digest] = record.finished
        found.append(record)
    if running:
        in_use.numbers.setdefault(digest, set()).add(head.attempt)
        begun = store.begun_record(digest, head.attempt)
        for bound in (*begun.dependencies, *begun.after) if begun is not None else ():
            _keep(store, bound.path, in_use)
    if head.current != head.attempt:
        for kind in ("shard", "milestone"):
            for piece in pieces(store, digest, head.chain, kind).values():
                _keep(store, piece.attempt_path, in_use)
        found += [store.begun_record(digest, attempt) for attempt in range(head.chain, head.attempt + 1)]
    return [record for record in found if record is not None]


def _step_that_wrote(store: Store, record: Record, wholes: Mapping[str, str], in_use: InUse) -> Iterable[str]:
    """Returns the step whose directory holds a record's data if that is another one: the record is a link to it."""
    digest16 = _keep(store, record.output_path, in_use) if record.output_digest else None
    return [wholes[digest16]] if digest16 in wholes and not record.digest.startswith(digest16) else []


def _keep(store: Store, path: str, in_use: InUse) -> str | None:
    """Notes the attempt's directory that a path lies in, and returns 16 digits of its step; None for data elsewhere."""
    try:
        location = store.locate(store.url(path))
    except StoreError:
        return None
    if location.attempt_path is not None:
        in_use.attempts.add(location.attempt_path)
    return location.digest16
