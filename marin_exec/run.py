"""One run of a plan: backend, signals, progress and the closing summary around the scheduler."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from marin_exec.experiment import Experiment
from marin_exec.plan import Plan
from marin_exec.progress import make_reporter
from marin_exec.provenance import new_run
from marin_exec.run_events import RunEvents
from marin_exec.runners.scheduler import Scheduler
from marin_exec.runners.state import SETTLED, State, StepStatus, Timing
from marin_exec.runners.task import Backend
from marin_exec.step import Step
from marin_exec.store import Store
from marin_exec.store.roots import root_id


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    run_id: str
    statuses: dict[str, StepStatus]
    interrupted: bool

    @property
    def failed(self) -> list[StepStatus]:
        return [status for status in self.statuses.values() if status.state is State.FAILED]


def run_plan(
    plan: Plan,
    store: Store,
    experiment: Experiment,
    *,
    backend: str = "ray",
    address: str | None = None,
    max_concurrent: int | None = None,
    timing: Timing | None = None,
) -> Outcome:
    """Follows a plan that has something to run to its end.

    SIGINT, SIGTERM and SIGHUP (a closed terminal) stop the running steps, give their leases back with the reason, and
    end the run.

    Raises:
        ConfigError: the backend cannot be had (no cluster at the address), or cannot run the steps.
        StoreError: the store stopped answering, or the backend cannot reach it.
    """
    context = new_run(str(experiment.path), experiment.path.parent)
    reporter = make_reporter(store, plan, context.run_id, live=backend != "local")
    events = RunEvents(store, plan, context, root_id(experiment.name, plan.targets, plan.steps))
    scheduler = Scheduler(
        plan=plan,
        store=store,
        backend=_make_backend(backend, address, experiment),
        context=context,
        timing=timing or Timing.from_environment(),
        on_change=lambda status: _tell(status, reporter.changed, events.changed),
        on_tick=reporter.tick,
        max_concurrent=max_concurrent,
    )
    statuses: dict[str, StepStatus] = scheduler.statuses
    interrupted = False
    with reporter, events:
        try:
            if scheduler.begin():
                with _EndingSignals(scheduler) as signals:
                    if backend == "ray":
                        reporter.starting("Ray" if address or os.environ.get("RAY_ADDRESS") else "Ray on this machine")
                    scheduler.backend.start()
                    signals.set()  # again: Ray has set its own
                    scheduler.backend.check(store, _may_run(statuses), reporter.note)
                    signals.interrupt = scheduler.backend.name == "local"
                    scheduler.run()
        except (KeyboardInterrupt, SystemExit):  # the latter from Ray's own handler of SIGTERM, while it starts
            interrupted = True
        finally:
            scheduler.backend.stop()
        interrupted = interrupted or scheduler.cancelled
        events.finished(statuses.values(), interrupted=interrupted)
    outcome = Outcome(run_id=context.run_id, statuses=statuses, interrupted=interrupted)
    reporter.summary(statuses, interrupted=outcome.interrupted)
    return outcome


def _tell(status: StepStatus, *listeners: Callable[[StepStatus], None]) -> None:
    for listener in listeners:
        listener(status)


def _make_backend(name: str, address: str | None, experiment: Experiment) -> Backend:
    if name == "local":
        from marin_exec.runners.local import LocalBackend

        return LocalBackend()
    from marin_exec.runners.ray import RayBackend

    return RayBackend(address, by_value=experiment.travelling_modules)


def _may_run(statuses: dict[str, StepStatus]) -> list[Step]:
    return [status.planned.step for status in statuses.values() if status.state not in SETTLED]


class _EndingSignals:
    """While active, SIGINT, SIGTERM and SIGHUP cancel the run."""

    def __init__(self, scheduler: Scheduler):
        self._scheduler = scheduler
        self.interrupt = True
        """Whether to raise KeyboardInterrupt where the program is, rather than let the scheduler's loop see to it."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "_EndingSignals":
        if threading.current_thread() is threading.main_thread():  # where Python delivers them
            ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            # One that is ignored stays so: nohup, or a shell's background job.
            self._before = {each: signal.getsignal(each) for each in ending if signal.getsignal(each) != signal.SIG_IGN}
            self.set()
        return self

    def set(self) -> None:
        for each in self._before:
            signal.signal(each, self._cancel)

    def __exit__(self, *exc_info: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _cancel(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        self._scheduler.cancelled = True
        if self.interrupt:
            raise KeyboardInterrupt
