"""What the store promises when its backend loses requests, loses answers, is slow, or lists what was."""

import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty import Fault, FaultyFiles, Injected, at, by_chance, make_faulty

from marin_exec.errors import StoreError
from marin_exec.records import Record
from marin_exec.store import LeaseLost, Piece, Store, check_writable, claim, commit_piece, pieces, register_root, roots
from marin_exec.store.conditional import LogFile
from marin_exec.store.memory import MemoryFiles
from marin_exec.store.object_log import ObjectLog

DIGEST = "f" * 64
FAULTS: tuple[Fault, ...] = ("before", "after", "repeated")


class ObjectFiles(MemoryFiles):
    """In memory, with logs as object stores have them."""

    def open_log(self, path: str) -> LogFile:
        return ObjectLog(self, path)


@pytest.fixture(params=["local", "memory", "objects"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Makes fresh stores."""

    def fresh() -> Store:
        name = uuid.uuid4().hex
        store = Store.open(str(tmp_path / name) if request.param == "local" else f"memory://{name}")
        if request.param == "objects":
            store.__dict__["files"] = ObjectFiles(f"{store.prefix}/")
        return store

    return fresh


def persistently(act: Callable[[], object]) -> object:
    """Does what a driver does: what may pass is tried again."""
    for _ in range(20):
        try:
            return act()
        except (OSError, StoreError) as error:
            if isinstance(error, LeaseLost):
                raise
    raise AssertionError("twenty tries failed")


def hold_and_commit(store: Store, make_record: Callable[..., Record]) -> Record:
    """Claims, renews, logs and commits one attempt, trying again whatever fails; returns the record."""

    def claimed() -> object:
        head = store.head(DIGEST)
        if head is not None and head.data.state == "held":
            return claim(store, DIGEST, head)  # its own claim that it got no answer to: stale by now
        return claim(store, DIGEST, head)

    lease = persistently(claimed)
    while lease is None:
        lease = persistently(claimed)
    assert hasattr(lease, "attempt")
    log = persistently(lambda: store.attempt_log(DIGEST, lease.attempt))
    assert hasattr(log, "event")
    persistently(lambda: log.event("began"))
    persistently(lease.renew)
    persistently(lambda: log.event("ended"))
    record = make_record(DIGEST, lease.attempt, lease.chain)
    persistently(lambda: lease.commit(record))
    return record


@pytest.mark.parametrize("fault", FAULTS)
def test_attempt_with_a_fault_in_any_one_call_is_committed_once(
    plain: Callable[[], Store], fault: Fault, make_record: Callable[..., Record]
) -> None:
    number = 0
    while True:
        number += 1
        store = plain()
        files = make_faulty(store, at(number, fault))
        record = hold_and_commit(store, make_record)
        files.rule = lambda call: None
        if not files.faults:
            break  # the whole of it has fewer calls
        assert store.current(DIGEST) == record, files.faults
        kinds = [each["type"] for each in store.events(DIGEST, record.attempt)]
        assert list(dict.fromkeys(kinds)) == ["began", "ended"], files.faults
        head = store.head(DIGEST)
        assert head is not None and (head.data.state, head.data.current) == ("done", record.attempt)
    assert number > 8


@pytest.mark.parametrize("seed", range(20))
def test_attempt_with_many_faults_is_committed_once(
    plain: Callable[[], Store], seed: int, make_record: Callable[..., Record]
) -> None:
    store = plain()
    files = make_faulty(store, by_chance(seed, 0.3))
    record = hold_and_commit(store, make_record)
    files.rule = lambda call: None
    assert store.current(DIGEST) == record


@pytest.mark.parametrize("fault", FAULTS)
def test_lease_that_was_taken_over_stays_lost_whatever_fails(
    plain: Callable[[], Store], fault: Fault, make_record: Callable[..., Record]
) -> None:
    for number in range(1, 12):
        store = plain()
        old = claim(store, DIGEST, None)
        new = claim(store, DIGEST, store.head(DIGEST))
        assert old is not None and new is not None
        files = make_faulty(store, at(number, fault))
        for act in (old.renew, lambda old=old: old.commit(make_record(DIGEST, 1, 1)), lambda old=old: old.release("x")):
            with pytest.raises(LeaseLost):
                persistently(act)
        files.rule = lambda call: None
        new.commit(make_record(DIGEST, 2, 1))
        current = store.current(DIGEST)
        assert current is not None and current.attempt == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_piece_with_a_fault_in_any_one_call_stands_once(plain: Callable[[], Store], fault: Fault) -> None:
    for number in range(1, 6):
        store = plain()
        files = make_faulty(store, at(number, fault))
        mine = Piece(name="a", attempt=1, attempt_path="x/a1", files=(), result=1)
        stands = persistently(lambda store=store, mine=mine: commit_piece(store, DIGEST, 1, "shard", "a", mine))
        assert stands == mine, files.faults
        other = Piece(name="a", attempt=2, attempt_path="x/a2", files=(), result=2)
        assert (
            persistently(lambda store=store, other=other: commit_piece(store, DIGEST, 1, "shard", "a", other)) == mine
        )
        assert persistently(lambda store=store: pieces(store, DIGEST, 1, "shard")) == {"a": mine}


@pytest.mark.parametrize("fault", FAULTS)
def test_root_with_a_fault_in_any_one_call_is_registered_once(plain: Callable[[], Store], fault: Fault) -> None:
    for number in range(1, 4):
        store = plain()
        make_faulty(store, at(number, fault))
        new = persistently(lambda store=store: register_root(store, "experiment", [DIGEST]))
        assert new or fault == "after"  # then the first try made it, and said so by an error
        found = persistently(lambda store=store: roots(store))
        assert isinstance(found, dict) and [root.digests for root in found.values()] == [(DIGEST,)]


@pytest.mark.parametrize("fault", ["repeated", "delay"])
def test_writable_store_passes_its_check_in_spite_of_lost_answers(plain: Callable[[], Store], fault: Fault) -> None:
    for number in range(1, 7):
        store = plain()
        make_faulty(store, at(number, fault))
        check_writable(store)


def test_faults_by_chance_are_the_same_for_a_seed() -> None:
    def faults(seed: int) -> list[tuple[int, str]]:
        files = FaultyFiles(Store.open(f"memory://{uuid.uuid4().hex}").files, by_chance(seed, 0.5, ("before",)))
        for number in range(40):
            with_fault = random.Random(number).choice([files.read, files.names])
            try:
                with_fault("x")
            except Injected:
                continue
        return [(call.number, fault) for call, fault in files.faults]

    assert faults(1) == faults(1) != faults(2)
