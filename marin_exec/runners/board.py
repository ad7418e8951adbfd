"""Where every step of a run stands: each change of a state is made here, and what follows from it for the steps that wait."""

import logging
from collections.abc import Callable

from marin_exec.errors import StoreError
from marin_exec.plan import Action, Plan, PlannedStep
from marin_exec.runners.bindings import Bindings
from marin_exec.runners.queue import StartQueue
from marin_exec.runners.state import AVAILABLE, SETTLED, State, StepStatus

logger = logging.getLogger(__name__)

Listener = Callable[[StepStatus], None]


class Board:
    """The states of a plan's steps, and which of them are to be looked at next.

    Args:
        plan: what is to be done.
        statuses: by digest; given empty, and filled here.
        bindings: over the same statuses.
        on_change: called after every change.
    """

    def __init__(self, plan: Plan, statuses: dict[str, StepStatus], bindings: Bindings, on_change: Listener):
        self._plan = plan
        self.statuses = statuses
        self._bindings = bindings
        self._on_change = on_change
        for digest, planned in plan.steps.items():
            settled = self._settled_by_plan(planned)
            state, record = (State.REUSED, planned.record) if settled else (State.PENDING, None)
            statuses[digest] = StepStatus(planned, state, record)
        self.num_unsettled = sum(status.state not in SETTLED for status in statuses.values())
        self.queue = StartQueue(statuses)
        self.held_up: dict[str, None] = {}
        """Digests of the steps that other processes hold up, in the order in which they are to be looked at again."""
        self.next_look = 0.0
        """When other processes are looked at again; monotonic seconds."""

    def _settled_by_plan(self, planned: PlannedStep) -> bool:
        """Whether a step is settled from the start; one whose input is made again, or linked anew, is looked at in its turn."""
        if planned.action is not Action.REUSE:
            return planned.action is Action.GONE
        inputs = ((self._plan.steps[digest], self.statuses[digest], ref) for digest, ref in planned.references)
        return all(
            status.state in SETTLED or (ref.milestone is not None and upstream.record is None)
            for upstream, status, ref in inputs
        )

    def move(self, status: StepStatus, state: State, note: str) -> None:
        """Gives a step its new state, and those that waited for it theirs."""
        status.state, status.note = state, note
        self.num_unsettled -= state in SETTLED
        self._on_change(status)
        if state in AVAILABLE:
            self.queue.became_available(status.planned.digest)
        elif state is State.FAILED:
            self._block_dependants(status)

    def wait(self, status: StepStatus, note: str) -> None:
        """Leaves a step until the next look at other processes."""
        self.held_up[status.planned.digest] = None
        if (status.state, status.note) != (State.WAITING, note):
            self.move(status, State.WAITING, note)

    def try_again(self, status: StepStatus, note: str) -> None:
        """Makes a step ready again whose attempt ended without a result."""
        self.queue.put_back(status.planned.digest)
        self.move(status, State.PENDING, note)

    def look_for_milestones(self) -> None:
        """Makes those steps ready whose milestones have been published by now."""
        for digest, needs in self.queue.wait_for_milestones():
            for other, name in needs:
                if self._published(other, name):
                    self.queue.published(digest, (other, name))

    def _published(self, digest: str, name: str) -> bool:
        """Whether a milestone is there; what cannot be read now is looked for again, and stops nothing that runs."""
        try:
            return self._bindings.milestone(digest, name) is not None
        except (OSError, StoreError) as error:
            logger.warning("milestone %s: cannot be looked up, trying again: %s", name, error)
            return False

    def _block_dependants(self, failed: StepStatus) -> None:
        """Blocks what waits for a step that failed, however far down; milestones that it published stand, and serve."""
        stack = [failed]
        while stack:
            above = stack.pop()
            digest = above.planned.digest
            lacking = [
                child
                for child, milestones in self.queue.need_milestones(digest)
                if not all(self._published(digest, each) for each in milestones)
            ]
            for child in dict.fromkeys([*self.queue.need_whole(digest), *lacking]):
                status = self.statuses[child]
                if status.state is not State.PENDING:
                    continue
                if status.planned.action is Action.REUSE:
                    status.record = status.planned.record
                    self.move(status, State.REUSED, f"as it was: {above.planned.step.name} {above.state}")
                else:
                    self.move(status, State.BLOCKED, f"{above.planned.step.name} {above.state}")
                    stack.append(status)
