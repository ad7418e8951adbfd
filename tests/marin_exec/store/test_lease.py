"""Leases on both backends: who gets a step, what a holder may do, and whose attempt becomes the result."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from marin_exec.errors import ConfigError, InternalError
from marin_exec.records import Head, Record
from marin_exec.store import Conflict, Lease, LeaseLost, StalenessWatch, Store, claim, layout

DIGEST = "c" * 64


def claimed(store: Store, new_chain: bool = False) -> Lease:
    lease = claim(store, DIGEST, store.head(DIGEST), new_chain, host="here", pid=7)
    assert lease is not None
    return lease


def head_of(store: Store) -> Head:
    found = store.head(DIGEST)
    assert found is not None
    return found.data


def test_claim_of_a_new_step_holds_attempt_one(store: Store) -> None:
    lease = claimed(store)
    head = head_of(store)
    assert (head.state, head.attempt, head.chain, head.current, head.beat) == ("held", 1, 1, None, 0)
    assert (head.host, head.pid, head.holder) == ("here", 7, lease.holder) and len(lease.holder) == 32


def test_claim_on_a_head_that_moved_is_not_given(store: Store) -> None:
    first = claimed(store)
    assert claim(store, DIGEST, None) is None
    seen = store.head(DIGEST)
    first.renew()
    assert claim(store, DIGEST, seen) is None
    assert head_of(store).holder == first.holder


def test_two_holders_with_one_host_and_pid_are_told_apart(store: Store) -> None:
    first = claimed(store)
    second = claimed(store)  # takes over: containers give every process the same pid
    with pytest.raises(LeaseLost):
        first.renew()
    second.renew()


def test_renewals_raise_the_beat(store: Store) -> None:
    lease = claimed(store)
    lease.renew()
    lease.renew()
    assert head_of(store).beat == 2


def test_lost_lease_can_do_nothing_and_says_who_has_the_step(store: Store, make_record: Callable[..., Record]) -> None:
    first = claimed(store)
    views = [Lease(store, DIGEST, first._held) for _ in range(3)]
    taken = claimed(store)
    for act in (
        views[0].renew,
        lambda: views[1].commit(make_record(DIGEST, 1, 1)),
        lambda: views[2].release("cancelled"),
    ):
        with pytest.raises(LeaseLost, match=r"attempt 1 is lost; the step is held, attempt 2 on here \(process 7\)"):
            act()
    with pytest.raises(LeaseLost, match="attempt 1 is lost"):  # once lost, lost
        views[0].commit(make_record(DIGEST, 1, 1))
    assert head_of(store).holder == taken.holder
    assert store.files.read(layout.record(DIGEST, 1)) is None


def test_removed_head_is_a_lost_lease_and_is_not_made_anew(local_store: Store) -> None:
    import shutil

    lease = claimed(local_store)
    shutil.rmtree(local_store.url(layout.step_directory(DIGEST)))
    with pytest.raises(LeaseLost, match="has no head any more"):
        lease.renew()
    assert local_store.head(DIGEST) is None


def test_commit_makes_the_result_and_ends_the_lease(store: Store, make_record: Callable[..., Record]) -> None:
    lease = claimed(store)
    record = make_record(DIGEST, 1, 1)
    lease.commit(record)
    assert (head_of(store).state, head_of(store).current) == ("done", 1)
    for act in (lease.renew, lambda: lease.commit(record), lambda: lease.release("late")):
        with pytest.raises(LeaseLost, match="was committed before"):
            act()
    assert store.current(DIGEST) == record


def test_commit_of_another_attempts_record_is_a_bug(store: Store, make_record: Callable[..., Record]) -> None:
    lease = claimed(store)
    for record in (make_record(DIGEST, 2, 1), make_record("e" * 64, 1, 1), make_record(DIGEST, 1, 2)):
        with pytest.raises(InternalError):
            lease.commit(record)


def test_release_frees_a_step_that_was_never_done(store: Store) -> None:
    claimed(store).release("failed: ValueError")
    head = head_of(store)
    assert (head.state, head.note, head.current) == ("free", "failed: ValueError", None)


def test_forced_rerun_keeps_the_result_until_it_commits(store: Store, make_record: Callable[..., Record]) -> None:
    first = make_record(DIGEST, 1, 1)
    claimed(store).commit(first)
    rerun = claimed(store, new_chain=True)
    assert rerun.current == 1 and head_of(store).state == "held" and store.current(DIGEST) == first
    rerun.release("cancelled")
    assert (head_of(store).state, head_of(store).attempt) == ("done", 2) and store.current(DIGEST) == first
    again = claimed(store, new_chain=True)
    second = make_record(DIGEST, again.attempt, again.chain)
    again.commit(second)
    assert again.attempt == 3 and store.current(DIGEST) == second
    assert store.record(DIGEST, 1) == first  # records are kept


@pytest.mark.parametrize("end", ["free", "stale"])
def test_attempt_after_one_that_was_not_committed_is_of_its_chain(store: Store, end: str) -> None:
    for attempt in (1, 2, 3):
        lease = claimed(store)
        assert (lease.attempt, lease.chain) == (attempt, 1)
        if end == "free":
            lease.release("cancelled")
    assert claimed(store, new_chain=True).chain == 4
    assert claimed(store).chain == 4


def test_attempt_after_a_committed_one_begins_a_chain(store: Store, make_record: Callable[..., Record]) -> None:
    claimed(store).commit(make_record(DIGEST, 1, 1))
    lease = claimed(store)
    assert (lease.attempt, lease.chain) == (2, 2)
    lease.release("cancelled")  # to done 1; what attempt 2 made is still worth taking up
    lease = claimed(store)
    assert (lease.attempt, lease.chain) == (3, 2)


def break_once(monkeypatch: pytest.MonkeyPatch, store: Store, method: str, error: Exception, *, after: bool) -> None:
    """Has the next call of a backend's method fail, before or after it took effect: a lost request, or a lost reply."""
    original = getattr(store.files, method)

    def broken(*arguments: object) -> object:
        monkeypatch.setattr(store.files, method, original)
        if after:
            original(*arguments)
        raise error

    monkeypatch.setattr(store.files, method, broken)


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (Conflict("the request was repeated"), True),
        (OSError(5, "lost reply"), True),
        (OSError(5, "lost request"), False),
    ],
)
@pytest.mark.parametrize("act", ["renew", "commit", "release"])
def test_holder_whose_request_or_reply_is_lost_can_repeat_it(
    store: Store,
    make_record: Callable[..., Record],
    monkeypatch: pytest.MonkeyPatch,
    act: str,
    after: bool,
    error: Exception,
) -> None:
    lease = claimed(store)
    record = make_record(DIGEST, 1, 1)
    acts = {"renew": lease.renew, "commit": lambda: lease.commit(record), "release": lambda: lease.release("over")}
    break_once(monkeypatch, store, "replace", error, after=after)
    try:
        acts[act]()
    except OSError:
        acts[act]()
    assert head_of(store).state == {"renew": "held", "commit": "done", "release": "free"}[act]
    assert head_of(store).beat == (1 if act == "renew" else 0)
    assert store.current(DIGEST) == (record if act == "commit" else None)


@pytest.mark.parametrize("new", [True, False])
def test_claim_whose_reply_is_lost_is_ours(store: Store, monkeypatch: pytest.MonkeyPatch, new: bool) -> None:
    if not new:
        claimed(store).release("over")
    break_once(monkeypatch, store, "create" if new else "replace", Conflict("lost reply"), after=True)
    lease = claimed(store)
    lease.renew()
    assert head_of(store).holder == lease.holder


def test_commit_whose_record_was_written_before_a_failure_goes_on(
    store: Store, make_record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = claimed(store)
    break_once(monkeypatch, store, "create", OSError(28, "No space left on device"), after=True)
    record = make_record(DIGEST, 1, 1)
    with pytest.raises(OSError, match="No space"):
        lease.commit(record)
    assert store.current(DIGEST) is None
    lease.commit(record)
    assert store.current(DIGEST) == record


@pytest.mark.parametrize("act", ["commit", "release"])
@pytest.mark.parametrize("renewals", [0, 2])
def test_lease_that_ended_and_was_claimed_before_its_reply_is_not_called_lost(
    store: Store, make_record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch, act: str, renewals: int
) -> None:
    lease, original = claimed(store), store.files.replace

    def overtaken(*arguments: object) -> object:
        monkeypatch.setattr(store.files, "replace", original)
        original(*arguments)  # type: ignore[arg-type]
        other = claimed(store, new_chain=True)
        for _ in range(renewals):
            other.renew()
        raise Conflict("the list after the link shows a higher number")

    monkeypatch.setattr(store.files, "replace", overtaken)
    record = make_record(DIGEST, 1, 1)
    if act == "commit":
        lease.commit(record)
    else:
        lease.release("over")
    assert head_of(store).state == "held" and store.current(DIGEST) == (record if act == "commit" else None)
    with pytest.raises(LeaseLost, match="before"):
        lease.renew()


# Staleness


def test_watch_calls_a_head_stale_only_after_it_was_unchanged_for_long_enough() -> None:
    now = 100.0
    watch = StalenessWatch(30, 10, clock=lambda: now)
    head = Head(state="held", attempt=1, chain=1, holder="a")
    assert not watch.is_stale(DIGEST, head)
    now += 29.9
    assert not watch.is_stale(DIGEST, head)
    head = replace(head, beat=1)  # it lives
    assert not watch.is_stale(DIGEST, head)
    now += 29.9
    assert not watch.is_stale(DIGEST, head)
    now += 0.1
    assert watch.is_stale(DIGEST, head)
    assert not watch.is_stale(DIGEST, replace(head, holder="b", attempt=2, beat=1))


def test_watch_waits_five_of_the_holders_heartbeats_if_that_is_longer() -> None:
    """Drivers with different settings: the impatient one takes nothing from one that beats slowly."""
    now = 0.0
    watch = StalenessWatch(1.0, 0.2, clock=lambda: now)
    slow, old = Head(state="held", attempt=1, chain=1, holder="a", heartbeat_seconds=3.0), "e" * 64
    silent = replace(slow, heartbeat_seconds=0.0)  # as earlier versions wrote heads
    assert not watch.is_stale(DIGEST, slow) and not watch.is_stale(old, silent)
    now = 1.0
    assert watch.is_stale(old, silent)
    now = 14.9
    assert not watch.is_stale(DIGEST, slow)
    now = 15.0
    assert watch.is_stale(DIGEST, slow)


def test_claim_states_its_heartbeat_in_the_head(store: Store) -> None:
    lease = claim(store, DIGEST, None, heartbeat_seconds=2.5)
    assert lease is not None
    lease.renew()
    assert head_of(store).heartbeat_seconds == 2.5


@pytest.mark.parametrize("act", ["commit", "release", "renew"])
def test_renewal_that_took_effect_though_it_failed_costs_no_lease(
    store: Store, make_record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """The head is newer than the holder knows, by its own hand."""
    lease = claimed(store)
    break_once(monkeypatch, store, "replace", OSError(110, "Connection timed out"), after=True)
    with pytest.raises(OSError, match="timed out"):
        lease.renew()
    record = make_record(DIGEST, 1, 1)
    {"commit": lambda: lease.commit(record), "release": lambda: lease.release("over"), "renew": lease.renew}[act]()
    assert head_of(store).state == {"renew": "held", "commit": "done", "release": "free"}[act]


def test_watch_begins_anew_when_the_step_was_free_meanwhile() -> None:
    now = 0.0
    watch = StalenessWatch(30, 10, clock=lambda: now)
    head = Head(state="held", attempt=1, chain=1, holder="a")
    watch.is_stale(DIGEST, head)
    now = 40.0
    assert not watch.is_stale(DIGEST, replace(head, state="free"))
    assert not watch.is_stale(DIGEST, head)
    assert not watch.is_stale("e" * 64, head)


def test_watch_uses_its_own_monotonic_clock_by_default() -> None:
    import time

    assert StalenessWatch(30, 10)._clock is time.monotonic


@pytest.mark.parametrize(("stale_after", "heartbeat"), [(29.9, 10), (0, 0), (10, 0), (10, -1)])
def test_watch_shorter_than_three_heartbeats_is_refused(stale_after: float, heartbeat: float) -> None:
    with pytest.raises(ConfigError, match="at least three"):
        StalenessWatch(stale_after, heartbeat)
