"""Renews what a driver holds for its running steps, on threads of its own: no slow step, and no slow store call, delays a beat.

Every hold is renewed once a period by a bounded pool of threads, and at most one renewal of it is under way at a time;
one that fails or hangs is its own affair. A hold whose renewals fail for a whole lease time counts as lost, because others
may have it by then; one whose renewal hangs is given a second lease time for the answer. Time is counted in this thread's
own beats: a process that was stopped has missed none of them when it wakes, and looks before it gives up.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from marin_exec.errors import StoreError
from marin_exec.store import LeaseLost

logger = logging.getLogger(__name__)

MOST_THREADS = 32  # 256 leases in stores that take 0.1 s a call are renewed within a second


class Renewable(Protocol):
    def renew(self) -> None: ...


@dataclass(eq=False)
class _Renewal:
    owner: Any
    lease: Renewable
    name: str
    missed: int = 0
    """Beats since the last success."""
    under_way: bool = False


class Heartbeats:
    """Renews each added lease once a period, and tells which were lost.

    Args:
        period_seconds: how often.
        lease_seconds: how long others wait before they take over.
        on_lost: called, from another thread, when `lost()` has something new; it must return at once.
    """

    def __init__(self, period_seconds: float, lease_seconds: float, on_lost: Callable[[], None] = lambda: None):
        self._period = period_seconds
        self._most_missed = lease_seconds / period_seconds
        self._lease_seconds = lease_seconds
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._held: dict[int, _Renewal] = {}
        self._lost: list[tuple[Any, Renewable, str]] = []
        self._stop = threading.Event()
        self._todo: queue.SimpleQueue[_Renewal | None] = queue.SimpleQueue()
        self._pool: list[threading.Thread] = []
        self._clock = threading.Thread(target=self._beat, name="marin-exec heartbeats", daemon=True)

    def start(self) -> None:
        self._clock.start()

    def stop(self) -> None:
        """Ends the beats. A renewal that hangs is not waited for."""
        self._stop.set()
        self._clock.join()
        for _ in self._pool:
            self._todo.put(None)

    def add(self, owner: Any, leases: Iterable[Renewable], name: str) -> None:
        """Renews leases from now on; if one is lost, their owner is told.

        Args:
            owner: whatever `lost` is to return.
            leases: all that the owner holds.
            name: of the owner, for messages.
        """
        with self._lock:
            self._held |= {id(lease): _Renewal(owner, lease, name) for lease in leases}

    def remove(self, owner: Any) -> None:
        """Renews nothing of an owner any more."""
        with self._lock:
            self._held = {key: each for key, each in self._held.items() if each.owner is not owner}

    def lost(self) -> list[tuple[Any, Renewable, str]]:
        """Returns owners with a lease that they lost, and why, since the last call."""
        with self._lock:
            lost, self._lost = self._lost, []
        return lost

    def _beat(self) -> None:
        while not self._stop.wait(self._period):
            with self._lock:
                held = list(self._held.values())
            for renewal in held:
                renewal.missed += 1
                if not renewal.under_way:
                    renewal.under_way = True
                    self._todo.put(renewal)
                elif renewal.missed >= 2 * self._most_missed:
                    self._give_up(renewal, "the store does not answer")
            while len(self._pool) < min(len(held), MOST_THREADS):
                self._pool.append(threading.Thread(target=self._work, name="marin-exec renewals", daemon=True))
                self._pool[-1].start()

    def _work(self) -> None:
        while (renewal := self._todo.get()) is not None:
            self._renew(renewal)
            renewal.under_way = False

    def _renew(self, renewal: _Renewal) -> None:
        if self._held.get(id(renewal.lease)) is not renewal:
            return  # removed while it queued
        try:
            renewal.lease.renew()
            renewal.missed = 0
        except LeaseLost as error:
            self._report(renewal, f"lease lost to another driver ({error})")
        except Exception as error:  # of whatever class: a thread that died of it would leave other leases unrenewed
            said = str(error) if isinstance(error, (OSError, StoreError)) else f"{type(error).__name__}: {error}"
            if renewal.missed >= self._most_missed:
                self._give_up(renewal, said)
            else:
                logger.warning("%s: heartbeat failed, trying again: %s", renewal.name, said)

    def _give_up(self, renewal: _Renewal, why: str) -> None:
        self._report(
            renewal,
            f"lease could not be renewed for more than {self._lease_seconds:g} s, so another driver may have the step: {why}",
        )

    def _report(self, renewal: _Renewal, why: str) -> None:
        with self._lock:
            if self._held.get(id(renewal.lease)) is not renewal:
                return  # its owner gave it back meanwhile
            self._held = {key: each for key, each in self._held.items() if each.owner is not renewal.owner}
            self._lost.append((renewal.owner, renewal.lease, why))
            self._on_lost()  # before anybody can remove the owner, so that nothing else is woken for it
        logger.warning("%s: %s", renewal.name, why)
