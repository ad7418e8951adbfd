"""Named limits: at most so many steps at a time, over all drivers of a store. Slots are held as steps are.

Slot k of a limit is a head of its own. A driver that declares n uses slots 1 to n and no others, so it never brings more
than n about whatever others declare; it begins with the highest, which leaves the low ones to drivers that declare
less. No count is kept anywhere, so none can be wrong, and a slot whose holder was killed is taken over like its step.
"""

import secrets
from collections.abc import Mapping

from marin_exec.records import Head
from marin_exec.store import layout
from marin_exec.store.hold import Hold, LeaseLost, StalenessWatch, take
from marin_exec.store.store import Store


class Slot(Hold):
    """One place under a limit. Made by `take_slots`."""

    consequence = "The step that held it has to stop; it waits for a slot again"


def take_slots(
    store: Store, limits: Mapping[str, int], watch: StalenessWatch, host: str, pid: int, heartbeat_seconds: float
) -> tuple[list[Slot], str]:
    """Takes one slot of each limit, or none at all: whoever waits holds nothing, so nobody waits in a circle.

    Args:
        limits: the name and the number of each.
        watch: of the caller, over all its calls; holders that it finds stale are taken over from.
        host: where the holder runs; for display only, like `pid`.
        heartbeat_seconds: how often the holder will renew.

    Returns:
        The slots, and ""; or none, and the name of a limit all of whose slots are taken.

    Raises:
        OSError: the store could not be written. What had been taken is given back, or goes stale.
        StoreError: the store could not be read; likewise.
    """
    taken: list[Slot] = []
    try:
        for name in sorted(limits):
            slot = _take_one(store, name, limits[name], watch, host, pid, heartbeat_seconds)
            if slot is None:
                return [], name
            taken.append(slot)
        kept, taken = taken, []
        return kept, ""
    finally:
        release_slots(taken)


def release_slots(slots: list[Slot]) -> None:
    """Gives slots back; one that cannot be given back goes stale, and is taken over like one of a killed driver."""
    for slot in slots:
        try:
            slot.release("over")
        except (LeaseLost, OSError):
            continue


def _take_one(
    store: Store, name: str, number: int, watch: StalenessWatch, host: str, pid: int, heartbeat_seconds: float
) -> Slot | None:
    for index in range(number, 0, -1):
        path = layout.limit_slot(name, index)
        expected = store.head_at(path)
        if expected is not None and expected.data.state == "held" and not watch.is_stale(path, expected.data):
            continue
        attempt = expected.data.attempt + 1 if expected is not None else 1
        head = Head(
            state="held",
            attempt=attempt,
            chain=attempt,
            holder=secrets.token_hex(16),
            heartbeat_seconds=heartbeat_seconds,
            previous_holder=expected.data.holder if expected is not None else "",
            previous_state=expected.data.state if expected is not None else "",
            host=host,
            pid=pid,
        )
        held = take(store, path, expected, head)
        if held is not None:
            return Slot(store, path, "slot", f"{index} of limit {name}", held)
    return None
