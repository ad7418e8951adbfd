"""Holding one thing of the store for a while: a step, or a slot of a limit. Fenced, and without clocks of others.

What is held is a head in state "held", with a random token. Everything a holder does to it is a conditional replace of
the exact head that it wrote last, so a holder that slept while another took over cannot renew or end anything: there
is no moment between a check and a write. Taking over is decided by watching, on one's own monotonic clock, that nothing
changed.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from marin_exec.errors import ConfigError, StoreError
from marin_exec.records import Head
from marin_exec.secrets import redact
from marin_exec.store.conditional import AlreadyExists, Conflict, Versioned
from marin_exec.store.store import Store

LEASE_HEARTBEATS = 5
"""A head that did not change for so many of its holder's heartbeats may be taken over, at the earliest."""


class LeaseLost(StoreError):
    """The head is not ours any more: another run took over, or the store was removed."""


def take(store: Store, path: str, expected: Versioned[Head] | None, head: Head) -> Versioned[Head] | None:
    """Puts a new holder's head in the place of the one expected, or of none.

    Returns:
        What is held, or None if somebody else changed the head first.

    Raises:
        OSError: the store could not be written; it may or may not have taken effect, and goes stale if it did.
    """
    try:
        if expected is None:
            return Versioned(head, store.files.create(path, head.to_bytes()))
        return Versioned(head, store.files.replace(path, head.to_bytes(), expected.version))
    except (AlreadyExists, Conflict):
        found = store.head_at(path)
        return found if found is not None and found.data == head else None  # ours, though the answer was lost


class Hold:
    """The right to what a head stands for. Its methods may be called from several threads.

    Args:
        path: of the head.
        noun: what is held, for messages, e.g. "step".
        name: which one.
        held: the head as this holder wrote it.
    """

    consequence = ""
    """What follows for whoever loses it, for messages."""

    def __init__(self, store: Store, path: str, noun: str, name: str, held: Versioned[Head]):
        self._store = store
        self._path = path
        self._noun = noun
        self._name = name
        self._held = held
        self._ended = ""
        """Why nothing more can be done with this hold."""
        self._lock = threading.Lock()
        self.attempt = held.data.attempt
        self.holder = held.data.holder

    def renew(self) -> None:
        """Shows that the holder is alive.

        Raises:
            LeaseLost: stop the work; it counts for nothing.
            OSError: the store could not be reached; try again.
        """
        with self._lock:
            self._held = self._replace(replace(self._held.data, beat=self._held.data.beat + 1))

    def release(self, note: str) -> None:
        """Gives it back: to free, or to done if there was a result before.

        Args:
            note: why, e.g. "cancelled"; shown by status.

        Raises:
            LeaseLost: somebody else has it, so there is nothing to give back.
            OSError: the store could not be reached; try again, or leave it to go stale.
        """
        with self._lock:
            state = "free" if self._held.data.current is None else "done"
            self._replace(replace(self._held.data, state=state, note=redact(note)))
            self._end("released")

    def _replace(self, head: Head) -> Versioned[Head]:
        if self._ended:
            raise LeaseLost(self._ended)
        while True:
            try:
                version = self._store.files.replace(self._path, head.to_bytes(), self._held.version)
                return Versioned(head, version)
            except Conflict:
                found = self._store.head_at(self._path)
                if found is not None and found.data == head:
                    return found  # our own write, whose answer was lost
                if found is not None and head.state != "held" and self._ended_before(found.data, head):
                    return found
                if found is None or (found.data.state, found.data.holder) != ("held", self.holder):
                    raise self._lost(found) from None
                self._held = found  # our own renewal, of which we were told that it failed

    def _ended_before(self, found: Head, ours: Head) -> bool:
        """Returns whether our last head took effect, and another took hold before we could see it."""
        if (found.previous_holder, found.previous_state) == (self.holder, ours.state):
            return True
        return found.current == ours.current == self.attempt

    def _check_held(self) -> None:
        if self._ended:
            raise LeaseLost(self._ended)
        found = self._store.head_at(self._path)
        if found is None or (found.data.holder != self.holder and found.data.current != self.attempt):
            raise self._lost(found)

    def _end(self, how: str) -> None:
        self._ended = f"{self._noun} {self._name}: the lease of attempt {self.attempt} was {how} before; claim it anew"

    def _lost(self, found: Versioned[Head] | None) -> LeaseLost:
        now = "has no head any more"
        if found is not None:
            by = f" on {found.data.host} (process {found.data.pid})" if found.data.host else ""
            now = f"is {found.data.state}, attempt {found.data.attempt}{by}"
        self._ended = (
            f"{self._noun} {self._name}: the lease of attempt {self.attempt} is lost; the {self._noun} {now}. "
            f"{self.consequence}"
        )
        return LeaseLost(self._ended)


class StalenessWatch:
    """Finds holders that stopped renewing, by watching; no two clocks are ever compared.

    A holder states its heartbeat in its head, so that drivers with different settings do not take from each other what
    is alive: whichever is longer counts, one's own lease time or `LEASE_HEARTBEATS` of the holder's heartbeats.

    Args:
        stale_after_seconds: how long a held head must stay as it is, at least.
        heartbeat_seconds: how often this process renews what it holds itself.
        clock: monotonic seconds.

    Raises:
        ConfigError: `stale_after_seconds` is less than three heartbeats, so that one lost renewal could cost a live
            holder its step.
    """

    def __init__(
        self, stale_after_seconds: float, heartbeat_seconds: float, clock: Callable[[], float] = time.monotonic
    ):
        if heartbeat_seconds <= 0 or stale_after_seconds < 3 * heartbeat_seconds:
            raise ConfigError(
                f"lease: stale after {stale_after_seconds} s with a heartbeat of {heartbeat_seconds} s; "
                "a heartbeat above 0 s and at least three of them are needed. Raise the first or lower the second"
            )
        self._stale_after = stale_after_seconds
        self._clock = clock
        self._unchanged_since: dict[str, tuple[tuple[int, str, int], float]] = {}

    def is_stale(self, key: str, head: Head) -> bool:
        """Notes what a head is now, and returns whether it has been held, unchanged, for long enough.

        Args:
            key: tells heads apart: a step's digest, or a slot's path.
        """
        if head.state != "held":
            self._unchanged_since.pop(key, None)
            return False
        now, seen = self._clock(), (head.attempt, head.holder, head.beat)
        earlier = self._unchanged_since.get(key)
        if earlier is None or earlier[0] != seen:
            self._unchanged_since[key] = (seen, now)
            return False
        return now - earlier[1] >= max(self._stale_after, LEASE_HEARTBEATS * head.heartbeat_seconds)
