"""Slots of named limits in the store: how many there are, who has them, and what becomes of those of the dead."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from marin_exec.store import LeaseLost, Slot, StalenessWatch, Store, release_slots, take_slots

API = {"api": 2}


def patient() -> StalenessWatch:
    return StalenessWatch(30, 10)


def take(store: Store, limits: Mapping[str, int], watch: StalenessWatch | None = None) -> tuple[list[Slot], str]:
    return take_slots(store, limits, watch or patient(), "here", 7, 10)


def test_slots_are_as_many_as_declared_and_the_last_one_names_the_limit(store: Store) -> None:
    first, second = take(store, API), take(store, API)
    assert len(first[0]) == len(second[0]) == 1 and first[1] == second[1] == ""
    assert take(store, API) == ([], "api")
    release_slots(first[0])
    assert len(take(store, API)[0]) == 1


def test_slots_of_several_limits_are_taken_together_or_not_at_all(store: Store) -> None:
    (one,), _ = take(store, {"disk": 1})
    assert take(store, {"api": 1, "disk": 1}) == ([], "disk")
    assert len(take(store, {"api": 1})[0]) == 1  # nothing was kept of the try
    one.release("over")
    assert [len(take(store, {"disk": 1, "more": 1})[0])] == [2]


def test_limits_of_any_name_are_apart(store: Store) -> None:
    for name in ("a/b", "..", "a b", "\u00e9", "x" * 300):
        assert len(take(store, {name: 1})[0]) == 1 and take(store, {name: 1}) == ([], name)


def test_whoever_declares_less_is_left_the_low_slots(store: Store) -> None:
    """One who declares 2 never makes more than 2; those who declare 4 begin at the other end."""
    for _ in range(2):
        assert take(store, {"api": 4})[1] == ""
    assert [take(store, {"api": 2})[1] for _ in range(3)] == ["", "", "api"]
    assert take(store, {"api": 4}) == ([], "api")


def test_slot_of_a_silent_holder_is_taken_over_and_the_holder_learns_it(store: Store) -> None:
    (silent,), _ = take(store, {"api": 1})
    now = 0.0
    watch = StalenessWatch(30, 10, clock=lambda: now)
    assert take(store, {"api": 1}, watch) == ([], "api")
    now = 49.0
    assert take(store, {"api": 1}, watch) == ([], "api")  # five of its heartbeats are 50 s
    now = 50.0
    (taken,), _ = take(store, {"api": 1}, watch)
    with pytest.raises(
        LeaseLost, match=r"slot 1 of limit api: the lease of attempt 1 is lost; the slot is held, attempt 2"
    ):
        silent.renew()
    release_slots([silent])  # nothing of the other's
    assert take(store, {"api": 1}, watch) == ([], "api")
    taken.renew()


def test_slot_that_is_renewed_is_never_taken(store: Store) -> None:
    (slot,), _ = take(store, {"api": 1})
    now = 0.0
    watch = StalenessWatch(30, 10, clock=lambda: now)
    for _ in range(10):
        assert take(store, {"api": 1}, watch) == ([], "api")
        now += 40
        slot.renew()


def test_racing_takers_never_get_more_than_there_are(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        got = [slots for slots, _ in threads.map(lambda _: take(store, {"api": 3}), range(24))]
    assert sum(len(slots) for slots in got) == 3
