"""Renewals: side by side, each with its own failures, and an end to those that nobody answers."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from waiting import wait_until

from marin_exec import StoreError
from marin_exec.runners.heartbeat import MOST_THREADS, Heartbeats
from marin_exec.store import LeaseLost

PERIOD = 0.05
LEASE = 0.25
DEADLINE = 20.0


class FakeLease:
    """Counts its renewals; `act` is what each of them does first."""

    def __init__(self, act: Callable[[], None] = lambda: None):
        self.act = act
        self.renewed = 0

    def renew(self) -> None:
        self.act()
        self.renewed += 1


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.fixture
def heartbeats() -> Iterator[Heartbeats]:
    beats = Heartbeats(PERIOD, LEASE)
    beats.start()
    yield beats
    beats.stop()


def test_renewals_of_many_slow_leases_overlap(heartbeats):
    """One after the other they would take 256 x 20 ms, a hundred periods; nobody may lose a lease by that."""
    leases = [FakeLease(lambda: time.sleep(0.02)) for _ in range(256)]
    busy = most = 0
    lock = threading.Lock()

    def slow() -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        with lock:
            busy -= 1

    for lease in leases:
        lease.act = slow
        heartbeats.add(lease, [lease], "step")
    wait_until(lambda: all(lease.renewed >= 3 for lease in leases))
    assert 8 < most <= MOST_THREADS


def test_renewal_that_hangs_stops_no_other_and_is_given_up(heartbeats):
    go_on = threading.Event()
    hanging, healthy = FakeLease(lambda: go_on.wait(DEADLINE) and None), FakeLease()
    heartbeats.add("hanging", [hanging], "hanging")
    heartbeats.add("healthy", [healthy], "healthy")
    found: list = []
    wait_until(lambda: bool(found.extend(heartbeats.lost()) or found))
    assert [(owner, lease) for owner, lease, _ in found] == [("hanging", hanging)]
    assert "could not be renewed for more than 0.25 s" in found[0][2] and "does not answer" in found[0][2]
    before = healthy.renewed
    wait_until(lambda: healthy.renewed > before + 3)
    go_on.set()


def test_renewal_that_keeps_failing_is_given_up_after_the_lease_time_and_not_before(heartbeats):
    tries: list[float] = []

    def fail() -> None:
        tries.append(time.monotonic())
        raise OSError(5, "Input/output error")

    heartbeats.add("step", [FakeLease(fail)], "step")
    found: list = []
    wait_until(lambda: bool(found.extend(heartbeats.lost()) or found))
    assert "could not be renewed for more than 0.25 s, so another driver may have the step" in found[0][2]
    assert len(tries) >= LEASE / PERIOD  # it tried to the end
    seen = len(tries)
    time.sleep(4 * PERIOD)
    assert len(tries) == seen and heartbeats.lost() == []  # and then let it be; it is told once


def test_renewal_that_fails_for_less_than_the_lease_time_goes_on(heartbeats):
    fails = iter([OSError(5, "no"), StoreError("no"), RuntimeError("a client library's own")])
    lease = FakeLease()

    def act() -> None:
        error = next(fails, None)
        if error is not None:
            raise error

    lease.act = act
    heartbeats.add("step", [lease], "step")
    wait_until(lambda: lease.renewed > 2 * LEASE / PERIOD)
    assert heartbeats.lost() == []


def test_lost_lease_wakes_at_once_and_takes_the_owners_other_leases_along():
    woken = threading.Event()
    beats = Heartbeats(PERIOD, LEASE, on_lost=woken.set)
    beats.start()
    lost, kept = FakeLease(raising(LeaseLost("taken"))), FakeLease()
    beats.add("step", [lost, kept], "step")
    assert woken.wait(DEADLINE)
    assert [(owner, lease) for owner, lease, _ in beats.lost()] == [("step", lost)]
    beats.stop()
    seen = kept.renewed
    time.sleep(3 * PERIOD)
    assert kept.renewed == seen <= 1


def test_removed_owner_is_not_renewed_and_not_reported(heartbeats):
    inside, go_on = threading.Event(), threading.Event()

    def lose_slowly() -> None:
        inside.set()
        go_on.wait(DEADLINE)
        raise LeaseLost("taken")

    lease = FakeLease(lose_slowly)
    heartbeats.add("step", [lease], "step")
    assert inside.wait(DEADLINE)
    heartbeats.remove("step")  # as before a commit, which a renewal under way must not make look lost
    go_on.set()
    time.sleep(3 * PERIOD)
    assert heartbeats.lost() == [] and lease.renewed == 0


def test_stop_does_not_wait_for_a_renewal_that_hangs():
    go_on = threading.Event()
    beats = Heartbeats(PERIOD, LEASE)
    beats.start()
    lease = FakeLease(lambda: go_on.wait(DEADLINE) and None)
    beats.add("step", [lease], "step")
    time.sleep(2 * PERIOD)
    started = time.monotonic()
    beats.stop()
    assert time.monotonic() - started < DEADLINE / 4
    go_on.set()
