"""The commit protocol, exhaustively: real claims, renewals, commits and releases of two holders in every interleaving.

Each call of the store is a scheduling point, at which a holder may also be paused for ever. A lease may be found stale at
any time, as if each watch had waited long enough. A limited number of calls go wrong: the request is lost, the answer is
lost, the request arrives long after its sender was told of a timeout, or the client library repeats it and reports a
conflict with itself.
"""

import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from interleavings import Actor, Call, Calls, Raised, explore

from marin_exec.errors import StoreError
from marin_exec.records import Head, Record
from marin_exec.store import AlreadyExists, Conflict, LeaseLost, Store, Versioned, claim, layout, lease
from marin_exec.store.hold import Hold

DIGEST = "d" * 64
HEAD = layout.head(DIGEST)
TRIES = 2


@dataclass(frozen=True)
class State:
    """What is in the store, and what the checks remember of the past."""

    objects: tuple[tuple[str, bytes, int], ...] = ()
    """Path, content and version of each."""
    late: tuple[tuple[int, Call], ...] = ()
    """Requests that may still arrive, with their senders."""
    faults: int = 0
    """How many calls may still go wrong."""
    counted: tuple[tuple[int, bytes], ...] = ()
    """Attempt and record of every commit that ever counted."""

    def get(self, path: str) -> Versioned[bytes] | None:
        return next((Versioned(data, version) for name, data, version in self.objects if name == path), None)

    def put(self, path: str, data: bytes) -> "State":
        version = 1 + max((version for _, _, version in self.objects), default=0)
        kept = tuple(each for each in self.objects if each[0] != path)
        return replace(self, objects=tuple(sorted((*kept, (path, data, version)))))

    @property
    def head(self) -> Head | None:
        found = self.get(HEAD)
        return head_of(found.data) if found else None


@functools.cache
def head_of(data: bytes) -> Head:
    return Head.from_bytes(data, HEAD)


class ConditionalStore:
    """The model of a store with conditional writes.

    Args:
        fenced: whether `replace` looks at the version. The check of the checker is one that does not.
    """

    def __init__(self, fenced: bool = True):
        self._fenced = fenced

    def outcomes(self, state: State, actor: int, call: Call) -> Iterator[tuple[State, Any]]:
        after, answer = self._effect(state, call)
        yield after, answer
        if not state.faults:
            return
        fewer = replace(state, faults=state.faults - 1)
        timeout = Raised(TimeoutError, (110, "no answer"))
        yield fewer, timeout
        if after != state:
            lost = replace(after, faults=state.faults - 1)
            yield lost, timeout
            yield lost, self._effect(lost, call)[1]  # repeated by the client library, which meets its own first try
            yield replace(fewer, late=(*fewer.late, (actor, call))), timeout

    def spontaneous(self, state: State) -> Iterator[State]:
        for n, (_, call) in enumerate(state.late):
            yield self._effect(replace(state, late=state.late[:n] + state.late[n + 1 :]), call)[0]

    def _effect(self, state: State, call: Call) -> tuple[State, Any]:
        path = call.arguments[0]
        found = state.get(path)
        if call.name == "read":
            return state, found
        data = call.arguments[1]
        if call.name == "create":
            if found is not None:
                return state, Raised(AlreadyExists, (path,))
        elif call.name == "replace" and (found is None or (self._fenced and found.version != call.arguments[2])):
            return state, Raised(Conflict, (path,))
        after = state.put(path, data)
        if path == HEAD:
            after = checked(after, state.head, head_of(data))
        else:
            assert found is None, "a record was rewritten"
        version = after.get(path)
        assert version is not None
        return after, version.version

    def check_end(self, state: State, actor: int, result: Any) -> None:
        said, attempt, data = result
        counted = dict(state.counted)
        if said == "committed":
            assert counted.get(attempt) == data, "told committed, and it never counted"
        if said == "lost":
            head = state.head
            assert head is None or head.current != attempt, "told lost, and it is the result"
            assert head is None or (head.state, head.attempt) != ("held", attempt), "told lost, and it holds the step"


def checked(state: State, old: Head | None, new: Head) -> State:
    """Returns the state after a change of the head.

    Raises:
        AssertionError: no holder may change this head in this way.
    """
    if new.state == "held" and (old is None or new.holder != old.holder):
        assert new.attempt == (old.attempt if old else 0) + 1, "an attempt's number was given twice"
        assert new.current == (old.current if old else None), "a claim changed the result"
        return state
    assert old is not None and old.state == "held" and new.holder == old.holder, "one who does not hold it changed it"
    assert new.attempt == old.attempt
    if new.state == "done" and new.current == new.attempt:
        record = state.get(layout.record(DIGEST, new.attempt))
        assert record is not None, "a result without a record"
        assert new.attempt not in dict(state.counted), "two commits of one attempt's place"
        assert (old.current or 0) < new.attempt, "the result went back"
        return replace(state, counted=(*state.counted, (new.attempt, record.data)))
    assert new.current == old.current and (new.state in ("held", "free") or new.current is not None)
    return state


class ActorFiles:
    """`ConditionalFiles` of one actor; what these programs do not call is not there."""

    def __init__(self, calls: Calls):
        self.read: Callable[..., Any] = functools.partial(calls.ask, "read")
        self.create: Callable[..., Any] = functools.partial(calls.ask, "create")
        self.replace: Callable[..., Any] = functools.partial(calls.ask, "replace")
        self.overwrite: Callable[..., Any] = functools.partial(calls.ask, "overwrite")


def record_of(held: lease.Lease) -> Record:
    return Record(
        digest=DIGEST,
        name="s",
        kind="k",
        kind_version=1,
        identity={},
        attempt=held.attempt,
        chain=held.chain,
        run_id=held.holder,
        output_path="p",
        files=(),
        output_digest="0",
        started="",
        finished="",
        seconds=0.0,
    )


def trying[T](act: Callable[[], T]) -> T:
    """What the scheduler does with calls that fail: once more, and then it is given up."""
    for left in reversed(range(TRIES)):
        try:
            return act()
        except LeaseLost:
            raise
        except (OSError, StoreError):
            if not left:
                raise
    raise AssertionError("unreachable")


def holder(name: str, ends: str, renews: int, patch: pytest.MonkeyPatch) -> Callable[[Calls], tuple[str, int, bytes]]:
    """Returns an actor: it claims whatever it finds, renews, and ends by committing or releasing."""

    def act(calls: Calls) -> tuple[str, int, bytes]:
        patch.setattr(lease, "secrets", types.SimpleNamespace(token_hex=lambda size: name))
        store = Store("memory://model")
        store.__dict__["files"] = ActorFiles(calls)
        try:
            held = claim(store, DIGEST, trying(lambda: store.head(DIGEST)))
        except (OSError, StoreError):
            return "no claim", 0, b""
        if held is None:
            return "no claim", 0, b""
        record = record_of(held)
        result = held.attempt, record.to_bytes()
        try:
            for _ in range(renews):
                try:
                    held.renew()
                except LeaseLost:
                    raise
                except (OSError, StoreError):
                    continue  # the next one tells
            if ends == "commit":
                trying(lambda: held.commit(record))
                return "committed", *result
            trying(lambda: held.release("over"))
            return "released", *result
        except LeaseLost:
            return "lost", *result
        except (OSError, StoreError):
            return "given up", *result

    return act


def start(state: str, faults: int) -> State:
    """A store in which the step was never begun, was given back, or is done."""
    if state == "new":
        return State(faults=faults)
    done = state == "done"
    head = Head(state="done" if done else "free", attempt=1, chain=1, holder="before", current=1 if done else None)
    made = State(faults=faults).put(layout.record(DIGEST, 1), b"record").put(HEAD, head.to_bytes())
    return replace(made, counted=((1, b"record"),) if done else ())


def actors(ends: tuple[str, ...], patch: pytest.MonkeyPatch, renews: int = 1) -> list[Actor]:
    return [holder(name, end, renews, patch) for name, end in zip("abc", ends, strict=False)]


@pytest.mark.parametrize("begin", ["new", "free", "done"])
@pytest.mark.parametrize("ends", [("commit", "commit"), ("commit", "release"), ("release", "release")], ids="-".join)
def test_two_holders_in_every_interleaving_with_a_fault_keep_all_promises(ends, begin, monkeypatch):
    assert explore(ConditionalStore(), start(begin, faults=1), actors(ends, monkeypatch)) > 1_000


def test_two_holders_in_every_interleaving_with_two_faults_keep_all_promises(monkeypatch):
    assert explore(ConditionalStore(), start("new", faults=2), actors(("commit", "commit"), monkeypatch)) > 100_000


def test_three_holders_in_every_interleaving_keep_all_promises(monkeypatch):
    ends = ("commit", "release", "commit")
    assert explore(ConditionalStore(), start("new", faults=0), actors(ends, monkeypatch)) > 10_000


# That the checker finds what is wrong


def test_store_without_fencing_is_found_out(monkeypatch):
    with pytest.raises(AssertionError, match=r"one who does not hold it|a claim changed the result") as caught:
        explore(ConditionalStore(fenced=False), start("new", faults=0), actors(("commit", "commit"), monkeypatch))
    assert "next: " in caught.value.__notes__[0]  # it says how that comes about


def test_commit_that_looks_and_then_writes_is_found_out(monkeypatch):
    """Between the look and the write another may take over, however short the moment is."""

    def replace_after_a_look(held: Hold, head: Head) -> Versioned[Head]:
        found = held._store.head_at(held._path)
        if found is None or found.data.holder != held.holder:
            raise held._lost(found)
        held._store.files.overwrite(held._path, head.to_bytes())  # type: ignore[attr-defined]
        return Versioned(head, 0)

    monkeypatch.setattr(Hold, "_replace", replace_after_a_look)
    with pytest.raises(AssertionError, match="one who does not hold it changed it"):
        explore(ConditionalStore(), start("new", faults=0), actors(("commit", "commit"), monkeypatch))


def test_holder_that_does_not_know_its_own_late_renewal_is_found_out(monkeypatch):
    """A renewal arrives after its sender was told of a timeout: the head that it meets then is its own."""

    def replace_once(held: Hold, head: Head) -> Versioned[Head]:
        try:
            return Versioned(head, held._store.files.replace(held._path, head.to_bytes(), held._held.version))
        except Conflict:
            found = held._store.head_at(held._path)
            if found is not None and found.data == head:
                return found
            raise held._lost(found) from None

    monkeypatch.setattr(Hold, "_replace", replace_once)
    with pytest.raises(AssertionError, match="told lost, and it holds the step"):
        explore(ConditionalStore(), start("new", faults=1), actors(("commit", "commit"), monkeypatch))
