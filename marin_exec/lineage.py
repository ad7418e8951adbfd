"""Lineage: from any path to its record, up to what it was made from, and down to all that was made from it.

Everything is read from records; nothing takes a lock. `upstream` and `downstream` are the same walk over two indexes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from marin_exec.errors import StoreError
from marin_exec.near_names import did_you_mean
from marin_exec.records import DependencyRecord, Link, Record
from marin_exec.store import Location, Store
from marin_exec.store.layout import begins_digest


@dataclass(frozen=True)
class Located:
    """An artifact: a step's output, or a file or directory in it."""

    record: Record
    sub_path: str
    """Relative to the output; "" for the whole of it."""


@dataclass(frozen=True)
class Edge:
    """One use of an output: `child` was made from `parent`."""

    parent: str
    """Node key: digest and attempt."""
    child: str
    sub_paths: tuple[str, ...]
    milestone: str | None
    relation: str
    """"input"; "after" for an order without identity; "link" from the step whose output was taken instead of making it."""


@dataclass(frozen=True)
class Node:
    """One output in a lineage."""

    key: str
    depth: int
    """Steps away from the artifact asked for."""
    name: str
    kind: str
    digest: str
    record: Record | None
    """Without files and end if the step is not done (a milestone of it was used); None if nothing is recorded."""


@dataclass(frozen=True)
class Lineage:
    """The nodes, nearest first, and the edges between them."""

    start: Located
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def locate(store: Store, artifact: str) -> Located:
    """Finds the record behind a path, a step name, or a digest of at least 6 hex digits.

    A name means the latest finished step of that name.

    Raises:
        StoreError: nothing in the store matches; the message lists near names.
    """
    location = location_of(store, artifact)
    if location is not None:
        digest = store.full_digest(location.digest16)
        record = _record_of_attempt(store, digest, location.attempt)
        if record is None:
            raise StoreError(
                f"{artifact}: belongs to step {location.name} ({digest[:16]}), of which no attempt is recorded"
            )
        return Located(record, location.sub_path)
    records = all_current(store)
    matches = [record for record in records if record.name == artifact]
    if not matches and begins_digest(artifact):
        matches = [record for record in records if record.digest.startswith(artifact)]
    if not matches:
        near = did_you_mean(artifact, (record.name for record in records)) or "the store holds no finished step."
        raise StoreError(
            f"{artifact!r}: no path in {store.prefix}, no finished step's name and no digest; {near} `marin-exec ls` lists them, "
            "and `marin-exec logs` finds steps that are not finished too"
        )
    return Located(max(matches, key=lambda record: record.finished), "")


def record_at(path: str) -> Record:
    """Returns the record of the output that a path lies in: for steps that look at how their inputs were made.

    Args:
        path: absolute, as a step function receives it; the store is found from it.

    The record has no files, no end and "" as its output digest if the step is not done yet.

    Raises:
        StoreError: the path is in no store, or nothing is recorded of its step.
    """
    store = Store.containing(path)
    return locate(store, path).record


def all_current(store: Store, problems: list[str] | None = None) -> list[Record]:
    """Returns the current record of every step that is done, in no particular order.

    Args:
        store: where to look.
        problems: gets a message for each record that is damaged; such a step is left out.
    """
    found = store.look_up_all(lambda digest: _current(store, digest, problems), store.known_digests())
    return [record for record in found if record is not None]


def _current(store: Store, digest: str, problems: list[str] | None = None) -> Record | None:
    try:
        return store.current(digest)
    except StoreError as error:
        if problems is not None:
            problems.append(str(error))
        return None


def _all_begun(store: Store) -> list[Record]:
    """Returns the current record of every step that is done, and what is known of the last attempt of the others."""
    found = store.look_up_all(lambda digest: _record_of_attempt(store, digest, None), store.known_digests())
    return [record for record in found if record is not None]


def upstream(store: Store, start: Located, *, depth: int | None = None) -> Lineage:
    """Returns everything that an artifact was made from, `depth` steps up or all the way."""

    @cache
    def read_once(bound: DependencyRecord) -> Record | None:
        return record_bound(store, bound)

    def step_up(record: Record) -> Iterable[tuple[Node, Edge]]:
        if record.link is not None and (original := _original(store, record.link)) is not None:
            yield _node(original), Edge(_key(original), _key(record), (), None, "link")
        for relation, bound in _bound(record):
            parent = read_once(bound)
            key = _key(parent) if parent else f"{bound.digest}/{bound.path.split('/')[-1]}"
            node = Node(key, 0, bound.name, bound.kind, bound.digest, parent)
            yield node, Edge(key, _key(record), bound.sub_paths, bound.milestone, relation)

    return _walk(start, step_up, depth)


def downstream(store: Store, start: Located, *, depth: int | None = None) -> Lineage:
    """Returns everything that was made from an artifact's step: all current records that reach it.

    A step that is not done counts by its last attempt, for what was made from its milestones.
    """
    users: dict[str, list[tuple[Record, str, DependencyRecord]]] = {}
    links: dict[str, list[Record]] = {}
    for child in _all_begun(store):
        if child.link is not None:
            links.setdefault(child.link.digest, []).append(child)
        for relation, bound in _bound(child):
            users.setdefault(bound.digest, []).append((child, relation, bound))

    def step_down(record: Record) -> Iterable[tuple[Node, Edge]]:
        for child in links.get(record.digest, []):
            yield _node(child), Edge(_key(record), _key(child), (), None, "link")
        for child, relation, bound in users.get(record.digest, []):
            if relation == "after" or not _uses(bound, record, start):
                continue  # an order is not a making
            yield _node(child), Edge(_key(record), _key(child), bound.sub_paths, bound.milestone, relation)

    return _walk(start, step_down, depth)


def _bound(record: Record) -> list[tuple[str, DependencyRecord]]:
    return [*(("input", each) for each in record.dependencies), *(("after", each) for each in record.after)]


def _uses(bound: DependencyRecord, record: Record, start: Located) -> bool:
    """For a milestone or file asked for by path: whether a user of its step used that part of it."""
    if record.digest != start.record.digest or not start.sub_path or not bound.sub_paths:
        return True
    return any(
        f"{sub}/".startswith(f"{start.sub_path}/") or f"{start.sub_path}/".startswith(f"{sub}/")
        for sub in bound.sub_paths
    )


def _walk(start: Located, neighbours: Callable[[Record], Iterable[tuple[Node, Edge]]], depth: int | None) -> Lineage:
    first = _node(start.record)
    nodes = {first.key: first}
    edges: dict[Edge, None] = {}
    frontier, distance = [first], 0
    while frontier and (depth is None or distance < depth):
        distance += 1
        following = []
        for node in frontier:
            for found, edge in neighbours(node.record) if node.record is not None else ():
                edges[edge] = None
                if found.key not in nodes:
                    placed = Node(found.key, distance, found.name, found.kind, found.digest, found.record)
                    nodes[found.key] = placed
                    following.append(placed)
        frontier = following
    return Lineage(start, tuple(nodes.values()), tuple(edges))


def _node(record: Record) -> Node:
    return Node(_key(record), 0, record.name, record.kind, record.digest, record)


def _key(record: Record) -> str:
    made = record.output_path.split("/")[-1]
    return f"{record.digest}/{made}" if record.link is None else f"{record.digest}/a{record.attempt}-linked"


def location_of(store: Store, artifact: str) -> Location | None:
    """Returns where a path points, or None for what can only be a name or a digest."""
    try:
        return store.locate(artifact)
    except StoreError:
        if artifact.startswith("/") or "://" in artifact:
            raise
        return None


def _original(store: Store, link: Link) -> Record | None:
    """Returns the record that a link points at; None if it is not to be had."""
    return store.readable_record(link.digest, link.attempt)


def record_bound(store: Store, bound: DependencyRecord) -> Record | None:
    """Returns the record of what an input was when it was bound.

    Its path leads to the attempt, unless the output was linked or adopted: then it lies elsewhere, and the input's own
    records are searched for the one that has it there.
    """
    attempt = _attempt_in(store, bound)
    if attempt is not None or not bound.path:
        return _record_of_attempt(store, bound.digest, attempt)
    for number in reversed(store.attempts(bound.digest)):
        record = store.readable_record(bound.digest, number)
        if record is not None and record.output_path == bound.path:
            return record
    return _record_of_attempt(store, bound.digest, None)


def _attempt_in(store: Store, bound: DependencyRecord) -> int | None:
    """Returns the attempt that a bound path names, or None if the path is not in the input's own directory."""
    try:
        location = store.locate(bound.path)
    except StoreError:
        return None
    return location.attempt if bound.digest.startswith(location.digest16) else None


def _record_of_attempt(store: Store, digest: str, attempt: int | None) -> Record | None:
    """Returns the record of the attempt in that directory, or the current one for a path without an attempt.

    A milestone may lie in the directory of an attempt that died after publishing it: an attempt that went on from there
    speaks for it. One that still runs, or that nobody went on from, speaks for itself by what it said when it began.
    """
    if attempt is not None:
        record = store.record_or_none(digest, attempt)
        if record is not None:
            return record
    current = _current(store, digest)
    if attempt is not None:
        if current is not None and current.chain <= attempt <= current.attempt:
            return current
        return store.begun_record(digest, attempt) or current
    if current is not None:
        return current
    begun = (store.begun_record(digest, each) for each in reversed(store.attempts(digest)))
    return next((record for record in begun if record is not None), None)
