"""What of a store nobody needs any more: found by looking, and nothing is written. `marin_exec.cleaning` removes it.

Free to go are outputs that no root leads to, attempts that were superseded or failed, pieces of finished chains (their
files are linked into the final attempt), records of attempts that never counted, what a killed `verify --rerun` left, and
temporary files. Heads, records and logs stay: they are the lineage. What is younger than the grace stays too.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from marin_exec.reachable import InUse, of_roots, reach
from marin_exec.records import Head
from marin_exec.store import Root, Store, Versioned, layout, root_ids, roots
from marin_exec.store.run_log import root_if_unfinished, run_ids
from marin_exec.walking import AttemptDirectory, Contents, attempt_directories, contents, temporary_files

TEMPORARY_AGE_SECONDS = 3600.0
"""A temporary file lives for moments; one of this age has no writer, whatever the grace."""

Silent = Callable[[Mapping[str, Head]], set[str]]
"""Given held heads by digest, watches them and returns the digests of those whose holder is dead."""


@dataclass
class Garbage:
    """One directory or file that can go."""

    path: str
    """Relative to the prefix."""
    step: str
    """Name of the step, "" if it is part of none, or nothing says its name."""
    digest: str
    """Of the step; "" if nothing is recorded of it."""
    reason: str
    files: int
    bytes: int
    """What its removal frees, if all that was found goes: a file with several names counts where the last one is."""


@dataclass
class Survey:
    """What was found, and what it was concluded from."""

    store: Store
    keep_last: int | None
    limit: float
    """What was written to since stays; seconds since 1970."""
    garbage: list[Garbage] = field(default_factory=list)
    withdraw: set[str] = field(default_factory=set)
    """Digests of steps that lose their result."""
    heads: dict[str, Versioned[Head]] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    """Digests of steps whose holders live."""
    holding: set[str] = field(default_factory=set)
    """The runs that hold those."""
    in_use: InUse = field(default_factory=InUse)
    num_roots: int = 0
    _seen: tuple[list[str], list[str]] | None = None
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def now_in_use(self, digest: str) -> bool:
        """Returns whether a step that was not in use is by now."""
        self.look()
        return digest in self.in_use.steps

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.garbage)

    @property
    def files(self) -> int:
        return sum(each.files for each in self.garbage)

    def look(self) -> None:
        """Works out what is in use, unless no root was registered and no run began since the last look."""
        with self._lock:
            seen = (root_ids(self.store), self.store.names(layout.RUNS))
            if seen == self._seen:
                return
            counted = live_roots(self.store, self.keep_last, self.holding, self.limit)
            self.num_roots = len(counted)
            starts = of_roots(counted) | self.alive
            self.in_use = reach(self.store, starts, self.heads, self.alive, InUse())
            self._seen = seen


def live_roots(store: Store, keep_last: int | None, holding: Collection[str], limit: float) -> list[Root]:
    """Returns the roots that count: all, or the newest of each experiment and those of runs that go on.

    Args:
        holding: runs that hold a step, and live.
        limit: another run that has not said that it ended goes on if it has said something since; seconds since 1970.
    """
    found = roots(store)
    if keep_last is None:
        return list(found.values())
    counted = set()
    for run_id in run_ids(store):
        unfinished = root_if_unfinished(store, run_id)
        if unfinished is not None:
            root, last = unfinished
            if run_id in holding or datetime.fromisoformat(last).timestamp() > limit:
                counted.add(root)
    taken: Counter[str] = Counter()
    for root_id, root in found.items():  # newest first
        taken[root.name] += 1
        if taken[root.name] <= keep_last:
            counted.add(root_id)
    return [root for root_id, root in found.items() if root_id in counted]


def survey(store: Store, *, grace_seconds: float, now: float, silent: Silent, keep_last: int | None = None) -> Survey:
    """Finds what can go; writes nothing.

    Args:
        grace_seconds: what was written to later than that before `now` stays.
        now: seconds since 1970.
        silent: tells dead holders from live ones.
        keep_last: of each experiment only so many roots count, the newest; None counts all.

    Raises:
        StoreError: something cannot be read, so it is not known what is in use.
    """
    limit = now - grace_seconds
    found = Survey(store, keep_last, limit)
    found.heads = read_heads(store)
    held = {digest: each.data for digest, each in found.heads.items() if each.data.state == "held"}
    found.alive = set(held) - silent(held)
    begun = store.look_up_all(lambda digest: store.begun_record(digest, held[digest].attempt), sorted(found.alive))
    found.holding = {record.run_id for record in begun if record is not None}
    found.look()
    counted: list[tuple[Garbage, Contents]] = []

    def add(path: str, step: str, digest: str, reason: str, inside: Contents) -> None:
        counted.append((Garbage(path, step, digest, reason, inside.files, inside.bytes_alone), inside))

    wholes = {digest[:16]: digest for digest in found.heads}
    by_step: dict[str, list[AttemptDirectory]] = {}
    for each in attempt_directories(store):
        by_step.setdefault(wholes.get(each.digest16, ""), []).append(each)
    for digest, directories in by_step.items():
        _judge_step(found, digest, directories, limit, add)
    for digest in sorted(found.heads.keys() - found.alive):
        _judge_control(found, digest, limit, add)
    for name in store.names(layout.SCRATCH):
        path = f"{layout.SCRATCH}/{name}"
        inside = contents(store, path)
        if inside.newest <= limit:
            add(path, "", "", "scratch of a killed verify --rerun", inside)
    for path in temporary_files(store):
        if not any(path.startswith(f"{garbage.path}/") for garbage, _ in counted):
            inside = contents(store, path)
            if inside.newest <= min(limit, now - TEMPORARY_AGE_SECONDS):
                add(path, "", "", "temporary file", inside)
    _share_out([inside for _, inside in counted], [garbage for garbage, _ in counted])
    found.garbage = [garbage for garbage, _ in counted]
    return found


def read_heads(store: Store) -> dict[str, Versioned[Head]]:
    """Returns the head of every step that was ever begun."""
    digests = sorted(store.known_digests())
    found = store.look_up_all(store.head, digests)
    return {digest: head for digest, head in zip(digests, found, strict=True) if head is not None}


Add = Callable[[str, str, str, str, Contents], None]


def _judge_step(found: Survey, digest: str, directories: list[AttemptDirectory], limit: float, add: Add) -> None:
    """Adds those of a step's attempts that can go; `digest` is "" for directories of steps of which nothing is recorded."""
    if digest in found.alive:
        return
    kept = found.in_use.numbers.get(digest, set())
    free = [each for each in directories if each.path not in found.in_use.attempts and each.attempt not in kept]
    if digest in found.in_use.steps:
        finished = found.in_use.finished.get(digest)
        if finished is not None and datetime.fromisoformat(finished).timestamp() > limit:
            return  # a run that started before may still read what this result took the place of
        recorded = {layout.parse_record(name) for name in found.store.names(layout.attempts_directory(digest))}
        for each in free:
            inside = contents(found.store, each.path)
            if inside.newest <= limit:
                add(each.path, each.name, digest, "superseded" if each.attempt in recorded else "failed", inside)
        return
    looked = [(each, contents(found.store, each.path)) for each in free]
    if not looked or any(inside.newest > limit for _, inside in looked) or len(free) < len(directories):
        return  # a step that is not in use goes whole, or not yet
    if digest:
        found.withdraw.add(digest)
    for each, inside in looked:
        add(each.path, each.name, digest, "not in use" if digest else "nothing recorded of it", inside)


def _judge_control(found: Survey, digest: str, limit: float, add: Add) -> None:
    """Adds pieces that nothing takes up any more, and a record that never counted."""
    store, head = found.store, found.heads[digest].data
    unfinished_chain = head.chain if head.current != head.attempt and digest not in found.withdraw else None
    chains = store.names(layout.chains_directory(digest))
    never_counted = head.current != head.attempt and head.chain <= head.attempt
    if not chains and not never_counted:
        return
    known = store.begun_record(digest, head.attempt if head.current is None else head.current)
    name = known.name if known is not None else ""
    current = known.chain if known is not None and head.current is not None and digest not in found.withdraw else None
    for chain in chains:
        path = f"{layout.chains_directory(digest)}/{chain}"
        if chain == str(unfinished_chain):
            continue
        if chain == str(current):  # its milestones serve whoever depends on one of them
            path = f"{path}/shard"
            if not store.names(path):
                continue
        inside = contents(store, path)
        if inside.files and inside.newest <= limit:
            add(path, name, digest, "pieces of a finished chain", inside)
    if never_counted and store.record_or_none(digest, head.attempt) is not None:
        path = layout.record(digest, head.attempt)
        inside = contents(store, path)
        if inside.files and inside.newest <= limit:
            add(path, name, digest, "record that never counted", inside)


def _share_out(insides: list[Contents], garbage: list[Garbage]) -> None:
    """Adds the files with several names to the garbage that has the last of them, if all of their names are garbage."""
    names: Counter[tuple[int, int]] = Counter()
    for inside, each in zip(insides, garbage, strict=True):
        for identity, links, size_bytes in inside.shared:
            names[identity] += 1
            if names[identity] == links:
                each.bytes += size_bytes
