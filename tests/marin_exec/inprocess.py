"""Runs steps in this process, through the real scheduler and store, with attempts on threads so that they overlap."""

import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marin_exec import Step
from marin_exec.plan import OnCodeChange, Plan, PlanOptions, make_plan
from marin_exec.provenance import RunContext
from marin_exec.runners.attempt import execute
from marin_exec.runners.scheduler import Scheduler
from marin_exec.runners.shards import map_in_process
from marin_exec.runners.state import StepStatus, Timing
from marin_exec.runners.task import AttemptTask, Failure
from marin_exec.store import Store

FAST = Timing(heartbeat=0.05, lease=0.25, poll=0.02)


class ThreadBackend:
    """Runs attempts on threads of this process. `lose` names steps whose next attempts end as if their worker had died."""

    name = "threads"
    capacity = 8

    def __init__(self, lose: Sequence[str] = ()) -> None:
        self.cancelled: list[str] = []
        self.submitted: list[AttemptTask] = []
        self._lose = list(lose)
        self._ended: queue.Queue[tuple[str, Any] | None] = queue.Queue()

    def start(self) -> None:
        return

    def check(self, store: Store, steps: Sequence[Step], say: Any) -> None:
        return

    def submit(self, task: AttemptTask) -> str:
        token = f"{task.digest}/{task.attempt}"
        self.submitted.append(task)
        threading.Thread(target=self._run, args=(token, task), daemon=True).start()
        return token

    def _run(self, token: str, task: AttemptTask) -> None:
        outcome: Any = execute(task, map_in_process)
        if task.step_name in self._lose:
            self._lose.remove(task.step_name)
            outcome = Failure(reason="NodeDiedError: the node is gone", infrastructure=True)
        self._ended.put((token, outcome))

    def finished(self, timeout_seconds: float) -> list[tuple[str, Any]]:
        try:
            found = [self._ended.get(timeout=timeout_seconds)]
        except queue.Empty:
            return []
        return [each for each in found if each is not None and each[0] not in self.cancelled]

    def wake(self) -> None:
        self._ended.put(None)

    def queued(self, token: str) -> str:
        return ""

    def cancel(self, token: str) -> None:
        self.cancelled.append(token)

    def stop(self) -> None:
        return

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


class World:
    """One store, and runs and plans over it."""

    def __init__(self, folder: Path):
        self.store = Store.open(str(folder / "store"))
        self.runs = 0

    def plan(self, *steps: Step, code: str = "say", with_descendants: bool = False, **chosen: Sequence[str]) -> Plan:
        """`chosen` are the names in `only`, `until`, `start_from` and `force`."""
        names = {option: tuple(each) for option, each in chosen.items()}
        options = PlanOptions(on_code_change=OnCodeChange(code), with_descendants=with_descendants, **names)
        return make_plan(steps, self.store, options)

    def actions(self, *steps: Step, **options: Any) -> dict[str, str]:
        return {each.step.name: each.action.value for each in self.plan(*steps, **options).steps.values()}

    def scheduler(self, plan: Plan, backend: Any = None, **options: Any) -> Scheduler:
        self.runs += 1
        context = RunContext(run_id=f"run-{self.runs}", experiment="test", provenance={"git": {"commit": "c0ffee"}})
        return Scheduler(
            plan=plan,
            store=self.store,
            backend=backend or ThreadBackend(),
            context=context,
            timing=options.pop("timing", FAST),
            **options,
        )

    def run(self, *steps: Step, backend: Any = None, **options: Any) -> dict[str, StepStatus]:
        """Plans and runs; returns the statuses by step name."""
        statuses = self.scheduler(self.plan(*steps, **options), backend).run()
        return {name: status for status in statuses.values() for name in status.planned.names}
