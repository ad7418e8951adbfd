"""The attempts of one driver, from the lease to its end: started, renewed, committed, or given back with the reason.

An attempt holds its step's lease, a slot of each limit, a log and a place on the backend, and lets go of all of them
together. What it wrote counts once its commit succeeded, and never otherwise.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from marin_exec.errors import StoreError
from marin_exec.provenance import RunContext
from marin_exec.records import DependencyRecord, Record
from marin_exec.runners.bindings import Bindings, resolved_config
from marin_exec.runners.board import Board
from marin_exec.runners.heartbeat import Heartbeats
from marin_exec.runners.inputs import superseded
from marin_exec.runners.limits import Limits
from marin_exec.runners.queued import QueuedAttempts
from marin_exec.runners.recording import begun_record, finished_record, first_after, linked_record
from marin_exec.runners.state import State, StepStatus, Timing
from marin_exec.runners.task import AttemptOutput, AttemptTask, Backend, Failure
from marin_exec.store import Lease, LeaseLost, Store
from marin_exec.store.content import SAME_CONTENT, link_to, note_content

COMMIT_TRIES = 5
LONGEST_NOTE = 500
NUM_THREADS = 32
"""That give leases back when a run is ended."""


@dataclass(kw_only=True)
class RunningAttempts:
    """What this driver holds leases for."""

    store: Store
    backend: Backend
    context: RunContext
    timing: Timing
    board: Board
    bindings: Bindings
    limits: Limits
    queued: QueuedAttempts

    def __post_init__(self) -> None:
        self._heartbeats = Heartbeats(self.timing.heartbeat, self.timing.lease, on_lost=self.backend.wake)
        self._running: dict[str, StepStatus] = {}
        self._backend_facts: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __enter__(self) -> "RunningAttempts":
        """Has attempts started and leases renewed from now on; the backend has been started."""
        self._backend_facts = self.backend.describe()
        self._heartbeats.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._heartbeats.stop()

    # -- beginnings ------------------------------------------------------------------------------------------------

    def link(self, status: StepStatus, lease: Lease, bound: tuple[DependencyRecord, ...], target: Record) -> None:
        """Makes another record's output the step's own; nothing runs, and no backend is needed."""
        status.lease, status.last_attempt = lease, lease.attempt
        begun = self._begun(status, lease, target.output_path, {}, bound)
        link = link_to(target, "content", SAME_CONTENT)
        if self._committed(status, linked_record(begun, target, link)):
            self.board.move(status, State.LINKED, link.phrase)

    def start(self, status: StepStatus, lease: Lease, bound: tuple[DependencyRecord, ...], reason: str) -> None:
        """Submits an attempt, unless one of its inputs was made again since it was bound."""
        planned = status.planned
        status.lease = lease
        status.attempts, status.last_attempt = status.attempts + 1, lease.attempt
        status.started = time.monotonic()
        self._heartbeats.add(status, [lease, *status.slots], planned.step.name)
        attempt_path = self.store.make_attempt_directory(planned.step.name, planned.digest, lease.attempt)
        record = self._begun(status, lease, attempt_path, self._backend_facts, bound)
        status.started_record = record
        status.log = self.store.attempt_log(planned.digest, lease.attempt)
        status.log.event("started", run_id=record.run_id, reason=reason, record=record.to_json())
        newer = superseded(self.store, bound, self.board.statuses)
        if newer:
            note = f"its input {newer} was made again by another run"
            self._give_back(status, note, "cancelled", reason=note)
            self._try_again(status, note)
            return
        status.token = self.backend.submit(self._task(status, record))
        self._running[status.token] = status
        self.board.move(status, State.RUNNING, reason)

    def _begun(
        self,
        status: StepStatus,
        lease: Lease,
        output_path: str,
        backend_facts: dict[str, object],
        bound: tuple[DependencyRecord, ...],
    ) -> Record:
        after = self.bindings.of_after(status)
        first = first_after(self.store, status.planned.digest, lease, after)
        return begun_record(status, lease, output_path, self.context, backend_facts, bound, after, first)

    def _task(self, status: StepStatus, record: Record) -> AttemptTask:
        planned = status.planned
        return AttemptTask(
            store=self.store,
            step_name=planned.step.name,
            kind_name=planned.step.kind.name,
            digest=planned.digest,
            attempt=record.attempt,
            chain=record.chain,
            attempt_path=record.output_path,
            fn=planned.step.fn,
            config=resolved_config(self.store, planned, record.dependencies),
            content_digest=planned.step.kind.content_digest,
            source_digest=planned.source.digest,
            source_is_identity=planned.step.kind.version is None,
            resources=planned.step.resources,
            shard_retries=planned.step.retry.infrastructure,
        )

    # -- ends ------------------------------------------------------------------------------------------------------

    def end_lost(self) -> None:
        """Stops attempts of which a lease or a slot was lost: others may have it by now."""
        for status, lost, why in self._heartbeats.lost():
            if status.state is not State.RUNNING or (lost is not status.lease and lost not in status.slots):
                continue
            self._stop_task(status)
            if lost is not status.lease:  # but a slot of a limit: the step is still ours, and others may have it
                self._give_back(status, why, "ended", reason=why)
            self._try_again(status, why)

    def end_finished(self, timeout_seconds: float) -> None:
        """Ends attempts that the backend is through with, waiting at most that long for one."""
        for token, outcome in self.backend.finished(timeout_seconds):
            if token in self._running:
                self._end(self._running[token], outcome)
        self.queued.look(self._running.values())

    def _end(self, status: StepStatus, outcome: AttemptOutput | Failure) -> None:
        if isinstance(outcome, Failure):
            self.fail(status, outcome)
            return
        record = finished_record(status, outcome)
        if self._committed(status, record):
            self.board.move(status, State.DONE, f"{record.seconds:.1f} s")

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
            self.fail(status, Failure(reason=reason, infrastructure=True))
            return False
        self._let_go(status)
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

    def fail(self, status: StepStatus, failure: Failure) -> None:
        """Ends an attempt that failed, or could not begin; the step is tried again if its retries allow it."""
        again = status.count_failure(failure)
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
            self._let_go(status)
            self.board.move(status, State.FAILED, failure.reason)

    def stop(self, statuses: Sequence[StepStatus], why: str) -> None:
        """Ends attempts by force, wherever they are; their leases are given back, and nothing follows for other steps.

        All at the same time: a store that answers late for one keeps none of the others.
        """
        for status in statuses:
            self._stop_task(status)
        if len(statuses) == 1:
            self._stopped(statuses[0], why)
        elif statuses:
            with ThreadPoolExecutor(min(len(statuses), NUM_THREADS)) as threads:
                list(threads.map(lambda status: self._stopped(status, why), statuses))

    def _stopped(self, status: StepStatus, why: str) -> None:
        self._give_back(status, why, "cancelled", reason=why)
        self._let_go(status)

    def _stop_task(self, status: StepStatus) -> None:
        if status.token is not None:
            self.backend.cancel(status.token)

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
        except (OSError, StoreError) as error:
            # The lease goes stale by itself, and whoever wants the step waits that long.
            status.note = f"the lease could not be given back: {error}"
        return True

    def _try_again(self, status: StepStatus, note: str) -> None:
        self._let_go(status)
        self.board.try_again(status, note)

    def _let_go(self, status: StepStatus) -> None:
        """Forgets an attempt whose lease has come to its end, and frees the slots that it held."""
        self._heartbeats.remove(status)
        if status.token is not None:
            self._running.pop(status.token, None)
        status.lease, status.token, status.queued = None, None, ""
        if self.limits.give_back(status):
            self.board.next_look = 0.0  # for those that wait for a slot
        if status.log is not None:
            status.log.close()
            status.log = None
