"""Renews the leases of a driver's running steps, on a thread of its own, so that no slow step delays a heartbeat."""

import logging
import threading
from typing import Any

from marin_exec.errors import StoreError
from marin_exec.store import LeaseLost

logger = logging.getLogger(__name__)


class Heartbeats:
    """Renews every added status's lease each `period_seconds`; a lost lease is reported once by `lost()`."""

    def __init__(self, period_seconds: float):
        self._period = period_seconds
        self._lock = threading.Lock()
        self._held: dict[int, Any] = {}
        self._lost: list[tuple[Any, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="marin-exec heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def add(self, status: Any) -> None:
        with self._lock:
            self._held[id(status)] = status

    def remove(self, status: Any) -> None:
        with self._lock:
            self._held.pop(id(status), None)

    def lost(self) -> list[tuple[Any, Any]]:
        """Returns the statuses, each with the lease that it lost, since the last call."""
        with self._lock:
            lost, self._lost = self._lost, []
        return lost

    def _beat(self) -> None:
        while not self._stop.wait(self._period):
            with self._lock:
                held = [(status, status.lease) for status in self._held.values()]
            for status, lease in held:
                self._renew(status, lease)

    def _renew(self, status: Any, lease: Any) -> None:
        try:
            lease.renew()
        except LeaseLost as error:
            with self._lock:
                if self._held.get(id(status)) is status and status.lease is lease:
                    del self._held[id(status)]
                    self._lost.append((status, lease))
                    logger.warning("%s: %s", status.planned.step.name, error)
        except (OSError, StoreError) as error:
            # A heartbeat outlives errors that pass: if they last, the lease goes stale and the next renewal says so.
            logger.warning("%s: heartbeat failed, trying again: %s", status.planned.step.name, error)
