"""Slots of named limits for the steps of one driver: taken right before a step's lease, given back when its attempt ends.

A step that waits for a slot holds nothing and is looked at like one that another driver holds. Of many that wait for the
same limit only the first has its slots read in a round: what it finds full is full for the others too.
"""

import os
import socket

from marin_exec.runners.state import StepStatus
from marin_exec.store import StalenessWatch, Store, release_slots, take_slots


class Limits:
    """What is known of the limits in this round.

    Args:
        watch: of the driver, for slots whose holders died.
        heartbeat_seconds: how often the driver renews what it holds.
    """

    def __init__(self, store: Store, watch: StalenessWatch, heartbeat_seconds: float):
        self._store = store
        self._watch = watch
        self._heartbeat_seconds = heartbeat_seconds
        self._full: dict[str, int] = {}

    def look_again(self) -> None:
        """Begins a round: what was full may not be any more."""
        self._full.clear()

    def waits_for(self, status: StepStatus) -> str:
        """Returns what a step has to wait for, as far as this round knows; "" if its slots are worth a look."""
        for name, number in status.planned.step.limits.items():
            if number <= self._full.get(name, 0):
                return f"waits for a slot of {name} ({number} of {number} taken)"
        return ""

    def take(self, status: StepStatus) -> str:
        """Takes the slots that a step needs; returns what it has to wait for, or "" if it has them all now."""
        limits = status.planned.step.limits
        if not limits:
            return ""
        if waits := self.waits_for(status):
            return waits
        status.slots, full = take_slots(
            self._store, limits, self._watch, socket.gethostname(), os.getpid(), self._heartbeat_seconds
        )
        if full:
            self._full[full] = limits[full]
        return self.waits_for(status) if full else ""

    def give_back(self, status: StepStatus) -> bool:
        """Gives a step's slots back; returns whether it had any, so that those who wait can be looked at."""
        if not status.slots:
            return False
        release_slots(status.slots)
        status.slots = []
        self._full.clear()
        return True
