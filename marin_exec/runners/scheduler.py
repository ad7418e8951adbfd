"""The scheduler: follows a plan to its end, in the driver.

One loop that never blocks on one step: a step held by another driver is polled while others run. The driver keeps
nothing that matters; leases, results and pieces are in the store, so a driver killed at any point is followed by the
same command run anywhere. What goes wrong with one step ends that step; its siblings go on.
"""

import logging
import os
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from marin_exec.errors import MarinExecError, StepFailed, StoreError
from marin_exec.half_done import half_done
from marin_exec.identity import resolve_config
from marin_exec.plan import Action, Plan, PlannedStep
from marin_exec.provenance import RunContext
from marin_exec.records import DependencyRecord, Record
from marin_exec.runners.bindings import Bindings
from marin_exec.runners.failures import may_pass
from marin_exec.runners.heartbeat import Heartbeats
from marin_exec.runners.inputs import superseded
from marin_exec.runners.limits import Limits
from marin_exec.runners.linking import gone_input, link_target, still_good
from marin_exec.runners.queue import StartQueue
from marin_exec.runners.queued import QueuedAttempts
from marin_exec.runners.recording import begun_record, finished_record, first_after, linked_record
from marin_exec.runners.state import AVAILABLE, SETTLED, State, StepStatus, Timing
from marin_exec.runners.task import AttemptOutput, AttemptTask, Backend, Failure
from marin_exec.step import StepPath
from marin_exec.store import Lease, LeaseLost, StalenessWatch, Store, claim
from marin_exec.store.content import SAME_CONTENT, link_to, note_content

logger = logging.getLogger(__name__)

COMMIT_TRIES = 5
LONGEST_NOTE = 500

Listener = Callable[[StepStatus], None]


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
        self._heartbeats = Heartbeats(self.timing.heartbeat, self.timing.lease, on_lost=self.backend.wake)
        self._watch = StalenessWatch(self.timing.lease, self.timing.heartbeat)
        self._limits = Limits(self.store, self._watch, self.timing.heartbeat)
        self._running: dict[str, StepStatus] = {}
        self._polled: dict[str, None] = {}
        self._next_poll = 0.0
        for digest, planned in self.plan.steps.items():
            settled = self._settled_by_plan(planned)
            self.statuses[digest] = StepStatus(
                planned, State.REUSED if settled else State.PENDING, planned.record if settled else None
            )
        self._unsettled = sum(status.state not in SETTLED for status in self.statuses.values())
        self._queue = StartQueue(self.statuses)
        self._bindings = Bindings(self.store, self.statuses)
        self._backend: dict[str, object] = {}
        try:
            self._link_what_is_known()
        except BaseException as error:
            self._cancel_all(f"driver stopped: {type(error).__name__}: {error}".rstrip(": "))
            raise
        return self._unsettled > 0

    def _link_what_is_known(self) -> None:
        left = []
        while (digest := self._queue.pop()) is not None:
            if self.plan.steps[digest].action is Action.LINK:
                self._try_to_start(self.statuses[digest], may_run=False)
            if self.statuses[digest].state is State.PENDING:
                left.append(digest)
        for digest in left:
            self._queue.put_back(digest)

    def _settled_by_plan(self, planned: PlannedStep) -> bool:
        """Whether a step is settled from the start; one whose input is made again, or linked anew, is looked at in its turn."""
        if planned.action is not Action.REUSE:
            return planned.action is Action.GONE
        inputs = ((self.plan.steps[digest], self.statuses[digest], ref) for digest, ref in planned.references)
        return all(
            status.state in SETTLED or (ref.milestone is not None and upstream.record is None)
            for upstream, status, ref in inputs
        )

    def run(self) -> dict[str, StepStatus]:
        """Brings about every RUN, LINK and WAIT step, or finds out why not; returns all statuses by digest."""
        if not self.statuses and not self.begin():
            return self.statuses
        self._limit = min(self.backend.capacity, self.max_concurrent or self.backend.capacity)
        self._backend = self.backend.describe()
        self._queued = QueuedAttempts(self.backend, self.on_change)
        self._heartbeats.start()
        try:
            while self._unsettled and not self.cancelled:
                self._advance()
                self.on_tick(self.statuses)
            if self.cancelled:
                self._cancel_all("cancelled")
        except BaseException as error:
            self._cancel_all(f"driver stopped: {type(error).__name__}: {error}".rstrip(": "))
            raise
        finally:
            self._heartbeats.stop()
        return self.statuses

    # -- one round -------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        for status, lease, why in self._heartbeats.lost():
            if status.state is State.RUNNING and (status.lease is lease or lease in status.slots):
                self._cancel_task(status)
                if (
                    lease is not status.lease
                ):  # the slot of a limit; the step itself is still ours, and others may have it
                    self._give_back(status, why, "ended", reason=why)
                self._try_again(status, f"{why}")
        if time.monotonic() >= self._next_poll:
            self._poll_others()
        while len(self._running) < self._limit and (digest := self._queue.pop()) is not None:
            self._try_to_start(self.statuses[digest])
        if self._running:
            for token, outcome in self.backend.finished(self.timing.poll):
                if token in self._running:
                    self._end(self._running[token], outcome)
            self._queued.look(self._running.values())
        elif self._unsettled:
            time.sleep(self.timing.poll / 5)  # for another driver, or a milestone

    def _poll_others(self) -> None:
        """Looks at what other processes do: holders of steps, and publishers of milestones."""
        self._next_poll = time.monotonic() + self.timing.poll
        self._limits.look_again()
        for digest in list(self._polled):
            if len(self._running) < self._limit and not self._limits.waits_for(self.statuses[digest]):
                del self._polled[digest]
                self._try_to_start(self.statuses[digest])
        for digest, needs in self._queue.wait_for_milestones():
            for other, name in needs:
                if self._published(other, name):
                    self._queue.published(digest, (other, name))

    def _published(self, digest: str, name: str) -> bool:
        """Whether a milestone is there; what cannot be read now is looked for again, and stops nothing that runs."""
        try:
            return self._bindings.milestone(digest, name) is not None
        except (OSError, StoreError) as error:
            logger.warning("milestone %s: cannot be looked up, trying again: %s", name, error)
            return False

    def _try_to_start(self, status: StepStatus, may_run: bool = True) -> None:
        """Settles, starts or postpones a step whose inputs are there; whatever goes wrong is the end of that step."""
        try:
            self._claim_or_wait(status, may_run)
            status.unreachable_since = None
        except Exception as error:
            if status.lease is None and may_pass(error) and self._has_patience(status):
                self._limits.give_back(status)
                self._wait(status, f"the store does not answer, trying again: {error}")
                return
            known = isinstance(error, (MarinExecError, OSError))
            text = "" if known else traceback.format_exc()
            reason = f"{error}" if isinstance(error, MarinExecError) else f"{type(error).__name__}: {error}"
            status.exceptions = status.planned.step.retry.exceptions  # it would only happen again
            self._end_failed(status, Failure(reason=reason, infrastructure=False, traceback=text))

    def _has_patience(self, status: StepStatus) -> bool:
        """Whether a step that cannot be looked up now is looked at again: for two lease times, as others' leases are."""
        now = time.monotonic()
        status.unreachable_since = status.unreachable_since or now
        return now - status.unreachable_since < 2 * self.timing.lease

    # -- taking a step ---------------------------------------------------------------------------------------------

    def _claim_or_wait(self, status: StepStatus, may_run: bool) -> None:
        planned, policy = status.planned, self.plan.options.on_code_change
        versioned = self.store.head(planned.digest)
        head = versioned.data if versioned else None
        bound = self._bindings.of_config(status)
        if head is not None and head.current is not None and head.state != "held":
            record = self.store.readable_record(planned.digest, head.current)
            if record is not None and still_good(self.store, status, record, bound, policy):
                status.record = record
                self._settle(status, State.REUSED, f"made by run {record.run_id}")
                return
        if head is not None and head.state == "held" and not self._watch.is_stale(planned.digest, head):
            self._wait(status, f"held by {head.host} (pid {head.pid}, attempt {head.attempt})")
            return
        invalidated = head is not None and head.invalidated
        target = None if invalidated else link_target(self.store, status, bound, policy)
        if target is None and not may_run:
            return
        if target is None and planned.action in (Action.REUSE, Action.LINK):
            self._check_inputs(status, bound)
        forced_afresh = planned.forced and status.attempts == 0
        earlier = half_done(self.store, planned.digest, head, planned.source, policy, bound)
        new_chain = forced_afresh or bool(earlier.afresh)
        if target is None and (waits_for := self._limits.take(status)):
            self._wait(status, waits_for)
            return
        me = (socket.gethostname(), os.getpid(), self.timing.heartbeat)
        lease = claim(self.store, planned.digest, versioned, new_chain, *me)
        if lease is None:  # somebody was faster
            self._limits.give_back(status)
            self._polled[planned.digest] = None
            return
        if target is not None:
            self._link(status, lease, bound, target)
            return
        notes = [planned.reason, "" if forced_afresh else earlier.note]
        if head is not None and head.state == "held":
            notes.append(
                f"taken over from attempt {head.attempt}, whose driver on {head.host} (pid {head.pid}) went silent"
            )
        self._start(status, lease, bound, "; ".join(note for note in notes if note))

    def _wait(self, status: StepStatus, note: str) -> None:
        self._polled[status.planned.digest] = None
        if (status.state, status.note) != (State.WAITING, note):
            self._settle(status, State.WAITING, note)

    def _check_inputs(self, status: StepStatus, bound: tuple[DependencyRecord, ...]) -> None:
        """Raises StepFailed if a step that was not expected to run lacks an input that nobody was asked to make again."""
        gone = gone_input(self.store, bound, self.statuses)
        if gone:
            raise StepFailed(
                f"step {status.planned.step.name}: an input came out different, so it has to be made again, and the data of "
                f"its input {gone} is gone; run again, which makes both"
            )

    def _link(self, status: StepStatus, lease: Lease, bound: tuple[DependencyRecord, ...], target: Record) -> None:
        planned = status.planned
        status.lease, status.last_attempt = lease, lease.attempt
        after = self._bindings.of_after(status)
        first = first_after(self.store, planned.digest, lease, after)
        begun = begun_record(status, lease, target.output_path, self.context, {}, bound, after, first)
        link = link_to(target, "content", SAME_CONTENT)
        if self._committed(status, linked_record(begun, target, link)):
            self._settle(status, State.LINKED, link.phrase)

    def _start(self, status: StepStatus, lease: Lease, bound: tuple[DependencyRecord, ...], reason: str) -> None:
        planned = status.planned
        status.lease = lease
        status.attempts, status.last_attempt = status.attempts + 1, lease.attempt
        status.started = time.monotonic()
        self._heartbeats.add(status, [lease, *status.slots], planned.step.name)
        after = self._bindings.of_after(status)
        attempt_path = self.store.make_attempt_directory(planned.step.name, planned.digest, lease.attempt)
        record = begun_record(
            status,
            lease,
            attempt_path,
            self.context,
            self._backend,
            bound,
            after,
            first_after(self.store, planned.digest, lease, after),
        )
        status.started_record = record
        status.log = self.store.attempt_log(planned.digest, lease.attempt)
        status.log.event("started", run_id=record.run_id, reason=reason, record=record.to_json())
        newer = superseded(self.store, bound, self.statuses)
        if newer:
            note = f"its input {newer} was made again by another run"
            self._give_back(status, note, "cancelled", reason=note)
            self._try_again(status, note)
            return
        status.token = self.backend.submit(self._task(status, record))
        self._running[status.token] = status
        self._settle(status, State.RUNNING, reason)

    def _task(self, status: StepStatus, record: Record) -> AttemptTask:
        planned = status.planned
        paths = {(each.digest, each.milestone): self.store.url(each.path) for each in record.dependencies}
        digest_of = {id(ref.step): digest for digest, ref in planned.references}

        def path_of(ref: StepPath) -> str:
            base = paths[digest_of[id(ref.step)], ref.milestone]
            return f"{base}/{ref.sub_path}" if ref.sub_path else base

        return AttemptTask(
            store=self.store,
            step_name=planned.step.name,
            kind_name=planned.step.kind.name,
            digest=planned.digest,
            attempt=record.attempt,
            chain=record.chain,
            attempt_path=record.output_path,
            fn=planned.step.fn,
            config=resolve_config(planned.step.config, path_of),
            content_digest=planned.step.kind.content_digest,
            source_digest=planned.source.digest,
            source_is_identity=planned.step.kind.version is None,
            resources=planned.step.resources,
            shard_retries=planned.step.retry.infrastructure,
        )

    # -- the end of an attempt -------------------------------------------------------------------------------------

    def _end(self, status: StepStatus, outcome: AttemptOutput | Failure) -> None:
        if isinstance(outcome, Failure):
            self._end_failed(status, outcome)
            return
        record = finished_record(status, outcome)
        if self._committed(status, record):
            self._settle(status, State.DONE, f"{record.seconds:.1f} s")

    def _committed(self, status: StepStatus, record: Record) -> bool:
        """Makes a record its step's result; if that fails, ends the attempt as it should and returns False."""
        lease = status.lease
        assert lease is not None
        self._heartbeats.remove(status)  # a renewal after the commit would look like a lost lease
        try:
            self._commit(lease, record)
        except LeaseLost as error:
            self._try_again(status, f"lease lost before the commit: {error}")
            return False
        except (OSError, StoreError) as error:
            reason = f"{type(error).__name__}: {error}; the output could not be committed in {COMMIT_TRIES} tries"
            self._end_failed(status, Failure(reason=reason, infrastructure=True))
            return False
        self._forget_attempt(status)
        status.record = record
        return True

    def _commit(self, lease: Lease, record: Record) -> None:
        """Commits, and tries again what may pass: the work of the whole attempt hangs on it."""
        for left in reversed(range(COMMIT_TRIES)):
            try:
                note_content(self.store, record)
                lease.commit(record)
                return
            except LeaseLost:
                raise
            except (OSError, StoreError):
                if not left:
                    raise
                time.sleep(self.timing.poll)

    def _end_failed(self, status: StepStatus, failure: Failure) -> None:
        status.failure = failure
        retry = status.planned.step.retry
        if failure.infrastructure:
            status.infrastructure_failures += 1
            again = status.infrastructure_failures <= retry.infrastructure
        else:
            status.exceptions += 1
            again = status.exceptions <= retry.exceptions
        kept = self._give_back(
            status,
            f"failed: {failure.reason}",
            "ended",
            reason=failure.reason,
            infrastructure=failure.infrastructure,
            again=again,
            traceback=failure.traceback,
            output_tail=failure.output_tail,
        )
        if again or not kept:
            self._try_again(status, failure.reason if kept else "lease lost to another driver")
        else:
            self._forget_attempt(status)
            self._settle(status, State.FAILED, failure.reason)

    def _give_back(self, status: StepStatus, note: str, event: str, **fields: object) -> bool:
        """Notes why an attempt ended and releases its lease; False if another driver has the lease."""
        self._heartbeats.remove(status)
        if status.lease is None:
            return True
        try:
            if status.log is not None:
                status.log.event(event, **fields)
            status.lease.release(note[:LONGEST_NOTE])
        except LeaseLost:
            return False
        except (
            OSError,
            StoreError,
        ) as error:  # the lease goes stale by itself, and whoever wants the step waits that long
            status.note = f"the lease could not be given back: {error}"
        return True

    def _try_again(self, status: StepStatus, note: str) -> None:
        self._forget_attempt(status)
        self._queue.put_back(status.planned.digest)
        self._settle(status, State.PENDING, note)

    def _cancel_task(self, status: StepStatus) -> None:
        if status.token is not None:
            self.backend.cancel(status.token)

    def _forget_attempt(self, status: StepStatus) -> None:
        self._heartbeats.remove(status)
        if status.token is not None:
            self._running.pop(status.token, None)
        status.lease, status.token, status.queued = None, None, ""
        if self._limits.give_back(status):
            self._next_poll = 0.0  # for those that wait for a slot
        if status.log is not None:
            status.log.close()
            status.log = None

    def _cancel_all(self, why: str) -> None:
        for status in list(self._running.values()):
            self._cancel_task(status)
            self._give_back(status, why, "cancelled", reason=why)
            self._forget_attempt(status)
        for status in self.statuses.values():
            if status.state not in SETTLED:
                if status.lease is not None:  # stopped between the claim and the start
                    self._give_back(status, why, "cancelled", reason=why)
                    self._forget_attempt(status)
                status.state, status.note = State.CANCELLED, why
                self.on_change(status)

    def _settle(self, status: StepStatus, state: State, note: str) -> None:
        status.state, status.note = state, note
        self._unsettled -= state in SETTLED
        self.on_change(status)
        if state in AVAILABLE:
            self._queue.became_available(status.planned.digest)
        elif state is State.FAILED:
            self._block_dependants(status)

    def _block_dependants(self, failed: StepStatus) -> None:
        """Blocks what waits for a step that failed, however far down; milestones that it published stand, and serve."""
        stack = [failed]
        while stack:
            above = stack.pop()
            digest = above.planned.digest
            lacking = [
                child
                for child, milestones in self._queue.need_milestones(digest)
                if not all(self._published(digest, each) for each in milestones)
            ]
            for child in dict.fromkeys([*self._queue.need_whole(digest), *lacking]):
                status = self.statuses[child]
                if status.state is State.PENDING and status.planned.action is Action.REUSE:
                    status.record = status.planned.record
                    self._settle(status, State.REUSED, f"as it was: {above.planned.step.name} {above.state}")
                elif status.state is State.PENDING:
                    status.state, status.note = State.BLOCKED, f"{above.planned.step.name} {above.state}"
                    self._unsettled -= 1
                    self.on_change(status)
                    stack.append(status)
