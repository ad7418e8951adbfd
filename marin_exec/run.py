"""One run of a plan: backend, signals, progress and the closing summary around the scheduler."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from marin_exec.ending import EndingSignals
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

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOWN = 10
"""Names of steps in one message."""


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
    end the run. They end the process, with exit code 130, if that takes longer than `END_SECONDS` of `marin_exec.ending`, and
    a second one does at once; leases then go stale by themselves.

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
    stopping = _Stopping(scheduler, context.run_id)
    interrupted = False
    with EndingSignals(_ENDING, stopping.cancel, stopping.unwritten) as signals, reporter, events:
        try:
            if scheduler.begin():
                if backend == "ray":
                    reporter.starting("Ray" if address or os.environ.get("RAY_ADDRESS") else "Ray on this machine")
                scheduler.backend.start()
                signals.set()  # again: Ray has set its own
                scheduler.backend.check(store, _may_run(statuses), reporter.note)
                stopping.interrupts = scheduler.backend.name == "local"
                scheduler.run()
        except (KeyboardInterrupt, SystemExit):  # the latter from Ray's own handler of SIGTERM, while it starts
            interrupted = True
        finally:
            stopping.interrupts = False
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


class _Stopping:
    """What a signal does to a run."""

    def __init__(self, scheduler: Scheduler, run_id: str):
        self._scheduler = scheduler
        self._run_id = run_id
        self.interrupts = True
        """Whether to raise KeyboardInterrupt where the program is, rather than let the scheduler's loop see to it."""

    def cancel(self) -> None:
        self._scheduler.cancelled = True
        if self.interrupts:
            raise KeyboardInterrupt

    def unwritten(self) -> list[str]:
        names = [status.planned.step.name for status in self._scheduler.holding()]
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        seconds = self._scheduler.timing.lease
        leases = [f"the end of {shown} (other runs wait {seconds:g} s for their leases, and then take them up)"]
        return [*(leases if names else []), f"the end of run {self._run_id}'s log"]
