"""Attempts that were submitted and do not run yet: said in the run's narration and in the attempt's log, so that every
reader of the store sees what a step waits for."""

import logging
import time
from collections.abc import Callable, Iterable

from marin_exec.runners.state import StepStatus
from marin_exec.runners.task import Backend

logger = logging.getLogger(__name__)

SAY_AFTER_SECONDS = 5.0
"""Most tasks wait less than that, for a worker to start."""


class QueuedAttempts:
    """Keeps `StepStatus.queued` of running steps as their backend says.

    Args:
        backend: where they were submitted.
        on_change: called when a step has queued for `SAY_AFTER_SECONDS`, for another reason than before, and when it runs
            after all.
    """

    def __init__(self, backend: Backend, on_change: Callable[[StepStatus], None]):
        self._backend = backend
        self._on_change = on_change
        self._said: dict[str, str] = {}

    def look(self, running: Iterable[StepStatus]) -> None:
        for status in running:
            assert status.token is not None
            status.queued = self._backend.queued(status.token)
            if not status.queued:
                if self._said.pop(status.token, ""):
                    self._say(status, f"runs, after {time.monotonic() - status.started:.0f} s in the queue")
            elif (
                time.monotonic() - status.started > SAY_AFTER_SECONDS and self._said.get(status.token) != status.queued
            ):
                self._said[status.token] = status.queued
                self._say(status, f"queued: {status.queued}")

    def _say(self, status: StepStatus, message: str) -> None:
        try:
            if status.log is not None:
                status.log.event("progress", message=message)
        except OSError as error:  # a note; what counts goes through the lease
            logger.warning("%s: its log cannot be written: %s", status.planned.step.name, error)
        status.note = message
        self._on_change(status)
