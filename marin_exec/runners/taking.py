"""A step's turn: its inputs are there, and it is reused, left to whoever holds it, linked, or claimed and started.

Decided by what the store says now, not by what it said when the plan was made.
"""

import os
import socket
import time
import traceback
from dataclasses import dataclass

from marin_exec.errors import MarinExecError, StepFailed
from marin_exec.half_done import half_done
from marin_exec.plan import Action, OnCodeChange
from marin_exec.records import DependencyRecord, Head
from marin_exec.runners.bindings import Bindings
from marin_exec.runners.board import Board
from marin_exec.runners.failures import may_pass, one_line
from marin_exec.runners.limits import Limits
from marin_exec.runners.linking import gone_input, link_target, still_good
from marin_exec.runners.running import RunningAttempts
from marin_exec.runners.state import State, StepStatus, Timing
from marin_exec.runners.task import Failure
from marin_exec.store import StalenessWatch, Store, claim


@dataclass(kw_only=True)
class Taking:
    """Takes steps for one driver."""

    store: Store
    policy: OnCodeChange
    board: Board
    bindings: Bindings
    attempts: RunningAttempts
    """Where those go that are started or linked."""
    limits: Limits
    watch: StalenessWatch
    """Of the driver, for holders that died."""
    timing: Timing

    def take(self, status: StepStatus, may_run: bool = True) -> None:
        """Settles, starts or postpones a step whose inputs are there; whatever goes wrong is the end of that step.

        Args:
            may_run: False leaves a step as it is that would have to run.
        """
        try:
            self._take(status, may_run)
            status.unreachable_since = None
        except Exception as error:
            if status.lease is None and may_pass(error) and self._has_patience(status):
                self.limits.give_back(status)
                self.board.wait(status, f"the store does not answer, trying again: {error}")
                return
            known = isinstance(error, (MarinExecError, OSError))
            text = "" if known else traceback.format_exc()
            status.exceptions = status.planned.step.retry.exceptions  # it would only happen again
            self.attempts.fail(status, Failure(reason=one_line(error), infrastructure=False, traceback=text))

    def _has_patience(self, status: StepStatus) -> bool:
        """Whether a step that cannot be looked up now is looked at again: for two lease times, as others' leases are."""
        now = time.monotonic()
        status.unreachable_since = status.unreachable_since or now
        return now - status.unreachable_since < 2 * self.timing.lease

    def _take(self, status: StepStatus, may_run: bool) -> None:
        planned = status.planned
        versioned = self.store.head(planned.digest)
        head = versioned.data if versioned else None
        bound = self.bindings.of_config(status)
        if self._reused(status, head, bound):
            return
        if head is not None and head.state == "held" and not self.watch.is_stale(planned.digest, head):
            self.board.wait(status, head.held_by)
            return
        invalidated = head is not None and head.invalidated
        target = None if invalidated else link_target(self.store, status, bound, self.policy)
        if target is None and not may_run:
            return
        if target is None and planned.action in (Action.REUSE, Action.LINK):
            self._check_inputs(status, bound)
        forced_afresh = planned.forced and status.attempts == 0
        earlier = half_done(self.store, planned.digest, head, planned.source, self.policy, bound)
        new_chain = forced_afresh or bool(earlier.afresh)
        if target is None and (waits_for := self.limits.take(status)):
            self.board.wait(status, waits_for)
            return
        me = (socket.gethostname(), os.getpid(), self.timing.heartbeat)
        lease = claim(self.store, planned.digest, versioned, new_chain, *me)
        if lease is None:  # somebody was faster
            self.limits.give_back(status)
            self.board.held_up[planned.digest] = None
        elif target is not None:
            self.attempts.link(status, lease, bound, target)
        else:
            notes = [planned.reason, "" if forced_afresh else earlier.note, _taken_over(head)]
            self.attempts.start(status, lease, bound, "; ".join(note for note in notes if note))

    def _reused(self, status: StepStatus, head: Head | None, bound: tuple[DependencyRecord, ...]) -> bool:
        """Settles a step whose result is there and serves; returns whether it does."""
        if head is None or head.current is None or head.state == "held":
            return False
        record = self.store.readable_record(status.planned.digest, head.current)
        if record is None or not still_good(self.store, status, record, bound, self.policy):
            return False
        status.record = record
        self.board.move(status, State.REUSED, f"made by run {record.run_id}")
        return True

    def _check_inputs(self, status: StepStatus, bound: tuple[DependencyRecord, ...]) -> None:
        """Raises StepFailed if a step that was not expected to run lacks an input that nobody was asked to make again."""
        gone = gone_input(self.store, bound, self.board.statuses)
        if gone:
            raise StepFailed(
                f"step {status.planned.step.name}: an input came out different, so it has to be made again, and the data of "
                f"its input {gone} is gone; run again, which makes both"
            )


def _taken_over(head: Head | None) -> str:
    if head is None or head.state != "held":
        return ""
    return f"taken over from attempt {head.attempt}, whose driver on {head.host} (pid {head.pid}) went silent"
