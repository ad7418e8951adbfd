"""The scheduler: follows a plan to its end, in the driver.

One loop that never blocks on one step: a step held by another driver is polled while others run. The driver keeps
nothing that matters; leases, results and pieces are in the store, so a driver killed at any point is followed by the
same command run anywhere. What goes wrong with one step ends that step; its siblings go on.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from marin_exec.plan import Action, Plan
from marin_exec.provenance import RunContext
from marin_exec.runners.bindings import Bindings
from marin_exec.runners.board import Board, Listener
from marin_exec.runners.limits import Limits
from marin_exec.runners.queued import QueuedAttempts
from marin_exec.runners.running import RunningAttempts
from marin_exec.runners.state import SETTLED, State, StepStatus, Timing
from marin_exec.runners.taking import Taking
from marin_exec.runners.task import Backend
from marin_exec.store import StalenessWatch, Store


@dataclass
class Scheduler:
    """Runs what a plan says, with one backend that has been started. `run` may be called once."""

    plan: Plan
    store: Store
    backend: Backend
    context: RunContext
    timing: Timing = field(default_factory=Timing)
    on_change: Listener = lambda status: None
    on_tick: Callable[[dict[str, StepStatus]], None] = lambda statuses: None
    max_concurrent: int | None = None
    statuses: dict[str, StepStatus] = field(default_factory=dict)
    cancelled: bool = False
    """Set from a signal handler: the loop then stops everything, gives leases back, and returns."""

    def begin(self) -> bool:
        """Makes the links that the plan is sure of, for which no backend is needed; returns whether anything is left.

        May be called before the backend is started, and `run` after it.
        """
        self._put_together()
        try:
            self._link_what_is_known()
        except BaseException as error:
            self._cancel_all(_driver_stopped(error))
            raise
        return self._board.num_unsettled > 0

    def _put_together(self) -> None:
        watch = StalenessWatch(self.timing.lease, self.timing.heartbeat)
        bindings = Bindings(self.store, self.statuses)
        self._limits = Limits(self.store, watch, self.timing.heartbeat)
        self._board = Board(self.plan, self.statuses, bindings, self.on_change)
        self._attempts = RunningAttempts(
            store=self.store,
            backend=self.backend,
            context=self.context,
            timing=self.timing,
            board=self._board,
            bindings=bindings,
            limits=self._limits,
            queued=QueuedAttempts(self.backend, self.on_change),
        )
        self._taking = Taking(
            store=self.store,
            policy=self.plan.options.on_code_change,
            board=self._board,
            bindings=bindings,
            attempts=self._attempts,
            limits=self._limits,
            watch=watch,
            timing=self.timing,
        )

    def _link_what_is_known(self) -> None:
        left = []
        while (digest := self._board.queue.pop()) is not None:
            if self.plan.steps[digest].action is Action.LINK:
                self._taking.take(self.statuses[digest], may_run=False)
            # One that somebody was faster to claim is looked at again with the held ones; in both places it would settle twice.
            if self.statuses[digest].state is State.PENDING and digest not in self._board.held_up:
                left.append(digest)
        for digest in left:
            self._board.queue.put_back(digest)

    def run(self) -> dict[str, StepStatus]:
        """Brings about every RUN, LINK and WAIT step, or finds out why not; returns all statuses by digest."""
        if not self.statuses and not self.begin():
            return self.statuses
        self._most_running = min(self.backend.capacity, self.max_concurrent or self.backend.capacity)
        with self._attempts:
            try:
                while self._board.num_unsettled and not self.cancelled:
                    self._advance()
                    self.on_tick(self.statuses)
                if self.cancelled:
                    self._cancel_all("cancelled")
            except BaseException as error:
                self._cancel_all(_driver_stopped(error))
                raise
        return self.statuses

    def _advance(self) -> None:
        """One round: what was lost, what others did, what can start, what ended."""
        self._attempts.end_lost()
        if time.monotonic() >= self._board.next_look:
            self._look_at_others()
        while self._has_room() and (digest := self._board.queue.pop()) is not None:
            self._taking.take(self.statuses[digest])
        if self._attempts:
            self._attempts.end_finished(self.timing.poll)
        elif self._board.num_unsettled:
            time.sleep(self.timing.poll / 5)  # for another driver, or a milestone

    def _has_room(self) -> bool:
        return len(self._attempts) < self._most_running

    def _look_at_others(self) -> None:
        """Looks at what other processes do: holders of steps and slots, and publishers of milestones."""
        self._board.next_look = time.monotonic() + self.timing.poll
        self._limits.look_again()
        for digest in list(self._board.held_up):
            status = self.statuses[digest]
            if self._has_room() and not self._limits.waits_for(status):
                del self._board.held_up[digest]
                self._taking.take(status)
        self._board.look_for_milestones()

    def holding(self) -> list[StepStatus]:
        """Returns those for which something is held in the store: they run, or were stopped on the way to it."""
        return [each for each in list(self.statuses.values()) if each.lease is not None or each.slots]

    def _cancel_all(self, why: str) -> None:
        self._attempts.stop(self.holding(), why)
        for status in self.statuses.values():
            if status.state not in SETTLED:
                self._board.move(status, State.CANCELLED, why)


def _driver_stopped(error: BaseException) -> str:
    return f"driver stopped: {type(error).__name__}: {error}".rstrip(": ")
