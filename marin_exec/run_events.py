"""Writes the event log of a run: how it began, each change of a step, how it ended. A log that fails stops no run."""

import contextlib
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Any, Self

from marin_exec.errors import StoreError
from marin_exec.plan import Plan
from marin_exec.provenance import RunContext
from marin_exec.runners.state import State, StepStatus
from marin_exec.secrets import redact
from marin_exec.store import AttemptLog, Store
from marin_exec.store.run_log import open_run_log

logger = logging.getLogger(__name__)


class RunEvents:
    """The log of one run, from `with` to its end; the lines are described in docs/keeping-house.md."""

    def __init__(self, store: Store, plan: Plan, context: RunContext, root: str):
        self._store = store
        self._plan = plan
        self._context = context
        self._root = root
        self._log: AttemptLog | None = None
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        with self._warned():
            self._log = open_run_log(self._store, self._context.run_id)
        provenance = self._context.provenance
        self._event(
            "started",
            run_id=self._context.run_id,
            experiment=self._context.experiment,
            root=self._root,
            host=socket.gethostname(),
            pid=os.getpid(),
            user=provenance.get("user"),
            command=provenance.get("command_line"),
            steps=len(self._plan.steps),
            counts=dict(Counter(each.action.value for each in self._plan.steps.values())),
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, Exception):  # e.g. a cluster that cannot be used
            self._event("finished", interrupted=False, error=redact(str(error)), seconds=self._seconds())
        if self._log is not None:
            with self._warned():
                self._log.close()

    def changed(self, status: StepStatus) -> None:
        """Notes that a step is in another state now."""
        seconds = None
        if status.state is State.DONE and status.record is not None:
            seconds = status.record.seconds
        elif status.state is State.FAILED and status.started:
            seconds = round(time.monotonic() - status.started, 3)
        self._event(
            "step",
            name=status.planned.step.name,
            digest=status.planned.digest,
            attempt=status.last_attempt or None,
            state=status.state.value,
            note=status.note,
            seconds=seconds,
        )

    def finished(self, statuses: Iterable[StepStatus], *, interrupted: bool) -> None:
        """Notes how the run ended."""
        counts = dict(Counter(status.state.value for status in statuses))
        self._event("finished", interrupted=interrupted, counts=counts, seconds=self._seconds())

    def _seconds(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def _event(self, type: str, **fields: Any) -> None:
        if self._log is not None:
            with self._warned():
                self._log.event(type, **fields)

    @contextlib.contextmanager
    def _warned(self) -> Generator[None]:
        try:
            yield
        except (OSError, StoreError) as error:
            logger.warning("run %s: its event log cannot be written, going on without: %s", self._context.run_id, error)
            self._log = None
