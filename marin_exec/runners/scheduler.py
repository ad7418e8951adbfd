"""The scheduler: follows a plan to its end, in the driver.

One loop looks at every unsettled step in turn and never blocks on one of them: a step held by another driver is polled
while others run. The driver keeps nothing that matters; leases, results and pieces are in the store, so a driver killed
at any point is followed by the same command run anywhere.

    PENDING -> (REUSED | RUNNING -> DONE | FAILED) ; WAITING while somebody else holds the lease ; BLOCKED under a failure
"""

import dataclasses
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from marin_exec.errors import InternalError, StepFailed
from marin_exec.identity import resolve_config
from marin_exec.plan import Action, OnCodeChange, Plan, PlannedStep
from marin_exec.provenance import RunContext
from marin_exec.records import DependencyRecord, Record
from marin_exec.runners.heartbeat import Heartbeats
from marin_exec.runners.task import AttemptOutput, AttemptTask, Backend, Failure
from marin_exec.step import StepPath
from marin_exec.store import Lease, LeaseLost, StalenessWatch, Store, claim, pieces, utc_now
from marin_exec.store.manifest import milestone_digest
from marin_exec.store.pieces import piece_named


class State(StrEnum):
    PENDING = "pending"
    WAITING = "waiting"
    """For another driver's lease."""
    RUNNING = "running"
    DONE = "done"
    REUSED = "reused"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


SETTLED = {State.DONE, State.REUSED, State.FAILED, State.BLOCKED, State.CANCELLED}
AVAILABLE = {State.DONE, State.REUSED}


@dataclass
class StepStatus:
    """How one step of the plan stands in this run."""

    planned: PlannedStep
    state: State = State.PENDING
    record: Record | None = None
    note: str = ""
    lease: Lease | None = None
    token: str | None = None
    attempt_path: str = ""
    log: Any = None
    started: float = 0.0
    """Monotonic seconds."""
    started_utc: str = ""
    bound: tuple[DependencyRecord, ...] = ()
    bound_after: tuple[DependencyRecord, ...] = ()
    first_after: tuple[DependencyRecord, ...] = ()
    infrastructure_failures: int = 0
    exceptions: int = 0
    failure: Failure | None = None
    next_poll: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How often the driver looks; seconds. The lease time is at least three heartbeats."""

    heartbeat: float = 3.0
    lease: float = 15.0
    poll: float = 0.5

    @classmethod
    def from_environment(cls) -> "Timing":
        """Reads MARIN_HEARTBEAT_SECONDS; the lease time is five of them."""
        heartbeat = float(os.environ.get("MARIN_HEARTBEAT_SECONDS", cls.heartbeat))
        return cls(heartbeat=heartbeat, lease=5 * heartbeat)


Listener = Callable[[StepStatus], None]


@dataclass
class Scheduler:
    """Runs what a plan says, with one backend that has been started. `run` may be called once."""

    plan: Plan
    store: Store
    backend: Backend
    context: RunContext
    timing: Timing = Timing()
    on_change: Listener = lambda status: None
    on_tick: Callable[[dict[str, StepStatus]], None] = lambda statuses: None
    max_concurrent: int | None = None
    statuses: dict[str, StepStatus] = field(default_factory=dict)
    cancelled: bool = False
    """Set from a signal handler: the loop then stops everything, gives leases back, and returns."""

    def run(self) -> dict[str, StepStatus]:
        """Brings about every RUN and WAIT step, or finds out why not; returns all statuses by digest."""
        self._heartbeats = Heartbeats(self.timing.heartbeat)
        self._watch = StalenessWatch(self.timing.lease, self.timing.heartbeat)
        for digest, planned in self.plan.steps.items():
            settled = planned.action in (Action.REUSE, Action.GONE)
            self.statuses[digest] = StepStatus(
                planned, State.REUSED if settled else State.PENDING, planned.record if settled else None
            )
        self._heartbeats.start()
        try:
            while not all(status.state in SETTLED for status in self.statuses.values()):
                if self.cancelled:
                    self._cancel_all("cancelled")
                    break
                self._advance()
                self.on_tick(self.statuses)
        except BaseException as error:
            self._cancel_all(f"driver stopped: {type(error).__name__}: {error}")
            raise
        finally:
            self._heartbeats.stop()
        return self.statuses

    # -- one round -------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        for status in self.statuses.values():
            if status.state in (State.PENDING, State.WAITING):
                self._try_to_start(status)
        for status, lease in self._heartbeats.lost():
            if status.state is State.RUNNING and status.lease is lease:
                self.backend.cancel(status.token)
                self._forget_attempt(status)
                self._settle(status, State.PENDING, "lease lost to another driver; looking at what it does")
        running = any(status.state is State.RUNNING for status in self.statuses.values())
        for token, outcome in self.backend.finished(self.timing.poll if running else 0.0):
            status = next(s for s in self.statuses.values() if s.token == token and s.state is State.RUNNING)
            self._end(status, outcome)
        if not running and not all(status.state in SETTLED for status in self.statuses.values()):
            time.sleep(self.timing.poll / 5)

    def _try_to_start(self, status: StepStatus) -> None:
        planned = status.planned
        blocked_by = [
            other
            for digest in (*planned.dependency_digests, *planned.after)
            if (other := self.statuses[digest]).state in (State.FAILED, State.BLOCKED, State.CANCELLED)
        ]
        if blocked_by:
            self._settle(status, State.BLOCKED, f"{blocked_by[0].planned.step.name} {blocked_by[0].state}")
            return
        now = time.monotonic()
        if now < status.next_poll or not self._inputs_ready(status):
            return
        running = sum(each.state is State.RUNNING for each in self.statuses.values())
        if self.max_concurrent is not None and running >= self.max_concurrent:
            return
        status.next_poll = now + self.timing.poll
        self._claim_or_wait(status)

    def _inputs_ready(self, status: StepStatus) -> bool:
        for digest, ref in status.planned.references:
            if self.statuses[digest].state in AVAILABLE:
                continue
            if ref.milestone is None or self._milestone(digest, ref.milestone) is None:
                return False
        return all(self.statuses[digest].state in AVAILABLE for digest in status.planned.after)

    def _milestone(self, digest: str, name: str) -> str | None:
        """Returns the path, relative to the prefix, of a milestone that a step now being run has published."""
        versioned = self.store.head(digest)
        if versioned is None:
            return None
        piece = piece_named(self.store, digest, versioned.data.chain, "milestone", name)
        return f"{piece.attempt_path}/{name}" if piece else None

    # -- taking a step ---------------------------------------------------------------------------------------------

    def _claim_or_wait(self, status: StepStatus) -> None:
        planned = status.planned
        versioned = self.store.head(planned.digest)
        head = versioned.data if versioned else None
        bound = self._bind(status)
        if head is not None and head.current is not None and head.state != "held":
            record = self.store.record(planned.digest, head.current)
            if self._still_good(status, record, bound):
                status.record = record
                self._settle(status, State.REUSED, f"made by run {record.run_id}")
                return
        if head is not None and head.state == "held":
            if not self._watch.is_stale(planned.digest, head):
                note = f"held by {head.host} (pid {head.pid}, attempt {head.attempt})"
                if status.state is not State.WAITING:
                    self._settle(status, State.WAITING, note)
                return
        lease = claim(
            self.store,
            planned.digest,
            versioned,
            new_chain=self._new_chain(status, head),
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        if lease is not None:
            self._start(status, lease, bound)

    def _still_good(self, status: StepStatus, record: Record, bound: tuple[DependencyRecord, ...]) -> bool:
        """Whether a record found when the step's turn came serves: made from the same inputs, its data there."""
        planned = status.planned
        if planned.forced and record.run_id != self.context.run_id:
            same_as_planned = planned.record is not None and record.attempt == planned.record.attempt
            if same_as_planned or planned.record is None:
                return False
        if self.plan.options.on_code_change is OnCodeChange.RERUN and record.source["digest"] != planned.source.digest:
            return False
        made_from = {(each.digest, each.milestone): each.output_digest for each in record.dependencies}
        now = {(each.digest, each.milestone): each.output_digest for each in bound}
        return made_from == now and not self.store.missing_files(record)

    def _new_chain(self, status: StepStatus, head: Any) -> bool:
        """Whether earlier attempts' pieces must not be taken up: a forced run, or pieces that other code made."""
        if status.planned.forced and status.infrastructure_failures == 0 and status.exceptions == 0:
            return True
        if head is None or self.plan.options.on_code_change is OnCodeChange.REUSE:
            return False
        made = [
            *pieces(self.store, status.planned.digest, head.chain, "shard").values(),
            *pieces(self.store, status.planned.digest, head.chain, "milestone").values(),
        ]
        return any(piece.source_digest != status.planned.source.digest for piece in made)

    def _bind(self, status: StepStatus) -> tuple[DependencyRecord, ...]:
        """Returns what each dependency holds now: fixed in the record when the lease is taken."""
        bound: dict[tuple[str, str | None], DependencyRecord] = {}
        for digest, ref in status.planned.references:
            key = (digest, ref.milestone)
            sub_paths = (bound[key].sub_paths if key in bound else ()) + ((ref.sub_path,) if ref.sub_path else ())
            bound[key] = self._dependency_record(digest, ref.milestone, sub_paths)
        return tuple(bound.values())

    def _dependency_record(self, digest: str, milestone: str | None, sub_paths: tuple[str, ...]) -> DependencyRecord:
        upstream = self.statuses[digest]
        record = upstream.record
        if record is not None:
            path, output_digest, run_id = record.output_path, record.output_digest, record.run_id
            if milestone is not None:
                output_digest = milestone_digest(self.store, digest, record.chain, milestone)
        else:
            head = self.store.head(digest)
            assert head is not None and milestone is not None
            path = self._milestone(digest, milestone).removesuffix(f"/{milestone}")
            output_digest = milestone_digest(self.store, digest, head.data.chain, milestone)
            run_id = self.context.run_id
        if output_digest is None:
            raise StepFailed(
                f"step {upstream.planned.step.name}: is done, but never published the milestone {milestone!r} that another "
                f"step depends on; it published {list(record.milestones) if record else []}"
            )
        return DependencyRecord(
            name=upstream.planned.step.name,
            kind=upstream.planned.step.kind.name,
            digest=digest,
            sub_paths=tuple(dict.fromkeys(sub_paths)),
            milestone=milestone,
            path=path,
            output_digest=output_digest,
            run_id=run_id,
        )

    def _start(self, status: StepStatus, lease: Lease, bound: tuple[DependencyRecord, ...]) -> None:
        planned = status.planned
        status.lease = lease
        status.bound = bound
        status.bound_after = tuple(self._dependency_record(digest, None, ()) for digest in planned.after)
        status.started, status.started_utc = time.monotonic(), utc_now()
        self._heartbeats.add(status)
        attempt_path = self.store.make_attempt_directory(planned.step.name, planned.digest, lease.attempt)
        status.log = self.store.attempt_log(planned.digest, lease.attempt)
        status.log.event(
            "started",
            name=planned.step.name,
            run_id=self.context.run_id,
            chain=lease.chain,
            attempt_path=attempt_path,
            source_digest=planned.source.digest,
            dependencies=[each.to_json() for each in bound],
            after=[each.to_json() for each in status.bound_after],
            reason=planned.reason,
        )
        status.first_after = self._first_after(planned.digest, lease, status.bound_after)
        paths = {(each.digest, each.milestone): self.store.url(each.path) for each in bound}
        digest_of = {id(ref.step): digest for digest, ref in planned.references}

        def path_of(ref: StepPath) -> str:
            base = paths[digest_of[id(ref.step)], ref.milestone]
            return f"{base}/{ref.sub_path}" if ref.sub_path else base

        status.token = self.backend.submit(
            AttemptTask(
                store=self.store,
                step_name=planned.step.name,
                kind_name=planned.step.kind.name,
                digest=planned.digest,
                attempt=lease.attempt,
                chain=lease.chain,
                attempt_path=attempt_path,
                fn=planned.step.fn,
                config=resolve_config(planned.step.config, path_of),
                content_digest=planned.step.kind.content_digest,
                source_digest=planned.source.digest,
                resources=planned.step.resources,
            )
        )
        self._settle(status, State.RUNNING, planned.reason)
        status.attempt_path = attempt_path

    def _first_after(
        self, digest: str, lease: Lease, mine: tuple[DependencyRecord, ...]
    ) -> tuple[DependencyRecord, ...]:
        """Returns what the chain's first attempt had waited for: a resumed run does not forget what it knew at its start."""
        if lease.chain == lease.attempt:
            return mine
        for event in self.store.events(digest, lease.chain):
            if event["type"] == "started":
                return tuple(DependencyRecord.from_json(each) for each in event["after"])
        raise InternalError(
            f"step {digest[:16]}: attempt {lease.chain} left no 'started' event, yet attempt {lease.attempt} follows it"
        )

    # -- the end of an attempt -------------------------------------------------------------------------------------

    def _end(self, status: StepStatus, outcome: AttemptOutput | Failure) -> None:
        if isinstance(outcome, Failure):
            self._end_failed(status, outcome)
            return
        record = self._make_record(status, outcome)
        self._heartbeats.remove(status)  # a renewal after the commit would look like a lost lease
        try:
            status.lease.commit(record)
        except LeaseLost as error:
            self._forget_attempt(status)
            self._settle(status, State.PENDING, f"lease lost before the commit: {error}")
            return
        status.log.event("done", output_digest=record.output_digest, seconds=record.seconds)
        self._forget_attempt(status)
        status.record = record
        self._settle(status, State.DONE, f"{record.seconds:.1f} s")

    def _end_failed(self, status: StepStatus, failure: Failure) -> None:
        status.failure = failure
        self._heartbeats.remove(status)
        retry = status.planned.step.retry
        if failure.infrastructure:
            status.infrastructure_failures += 1
            again = status.infrastructure_failures <= retry.infrastructure
        else:
            status.exceptions += 1
            again = status.exceptions <= retry.exceptions
        status.log.event(
            "ended",
            reason=failure.reason,
            infrastructure=failure.infrastructure,
            again=again,
            traceback=failure.traceback,
            output_tail=failure.output_tail,
        )
        try:
            status.lease.release(f"failed: {failure.reason}"[:500])
        except LeaseLost:
            status.note = "lease lost meanwhile"
        self._forget_attempt(status)
        self._settle(status, State.PENDING if again else State.FAILED, failure.reason)

    def _make_record(self, status: StepStatus, output: AttemptOutput) -> Record:
        planned, lease = status.planned, status.lease
        resources = dataclasses.asdict(planned.step.resources)
        return Record(
            digest=planned.digest,
            name=planned.step.name,
            kind=planned.step.kind.name,
            kind_version=planned.step.kind.version,
            identity=planned.identity,
            attempt=lease.attempt,
            chain=lease.chain,
            run_id=self.context.run_id,
            output_path=status.attempt_path,
            files=output.files,
            output_digest=output.output_digest,
            result=output.result,
            result_type=output.result_type,
            measured=output.measured,
            dependencies=status.bound,
            after=status.bound_after,
            first_after=status.first_after,
            see=tuple((each.name, "") for each in planned.step.see),
            started=status.started_utc,
            finished=utc_now(),
            seconds=round(time.monotonic() - status.started, 3),
            resources={
                **resources,
                "step_seconds": round(output.seconds, 3),
                "peak_memory_bytes": output.peak_memory_bytes,
                "host": output.host,
            },
            source={"digest": planned.source.digest, "functions": planned.source.functions},
            provenance={**self.context.provenance, "backend": self.backend.describe()},
            pieces={"made": output.pieces_made, "taken_up": output.pieces_taken_up},
            milestones=output.milestones,
        )

    def _forget_attempt(self, status: StepStatus) -> None:
        self._heartbeats.remove(status)
        status.lease, status.token = None, None
        if status.log is not None:
            status.log.close()
            status.log = None

    def _cancel_all(self, why: str) -> None:
        for status in self.statuses.values():
            if status.state is State.RUNNING:
                self._heartbeats.remove(status)
                self.backend.cancel(status.token)
                status.log.event("cancelled", reason=why)
                try:
                    status.lease.release(why)
                except LeaseLost:
                    status.note = "lease lost meanwhile"
                self._forget_attempt(status)
            if status.state not in SETTLED:
                self._settle(status, State.CANCELLED, why)

    def _settle(self, status: StepStatus, state: State, note: str) -> None:
        status.state, status.note = state, note
        self.on_change(status)
