"""What the scheduler knows of each step while a run goes on.

PENDING -> (REUSED | LINKED | RUNNING -> DONE | FAILED) ; WAITING while somebody else holds the lease ; BLOCKED under a failure
"""

import os
from dataclasses import dataclass, field
from enum import StrEnum

from marin_exec.errors import ConfigError
from marin_exec.plan import PlannedStep
from marin_exec.records import Record
from marin_exec.runners.task import Failure
from marin_exec.store import LEASE_HEARTBEATS, AttemptLog, Lease, Slot

LONGEST_HEARTBEAT_SECONDS = 600.0


class State(StrEnum):
    PENDING = "pending"
    WAITING = "waiting"
    """For another driver's lease, or for a slot of a limit."""
    RUNNING = "running"
    DONE = "done"
    REUSED = "reused"
    LINKED = "linked"
    """Nothing was run: another step's output has the same content, and serves."""
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


SETTLED = {State.DONE, State.REUSED, State.LINKED, State.FAILED, State.BLOCKED, State.CANCELLED}
AVAILABLE = {State.DONE, State.REUSED, State.LINKED}


@dataclass
class StepStatus:
    """How one step of the plan stands in this run."""

    planned: PlannedStep
    state: State = State.PENDING
    record: Record | None = None
    """What the step's output is, once it is available."""
    note: str = ""
    queued: str = ""
    """While RUNNING: what the attempt waits for before it really runs."""
    lease: Lease | None = None
    slots: list[Slot] = field(default_factory=list)
    """Of the limits that the step names; held while it runs."""
    token: str | None = None
    started_record: Record | None = None
    """What is known of the attempt since it began; its record when it ends, completed."""
    log: AttemptLog | None = None
    started: float = 0.0
    """Monotonic seconds."""
    unreachable_since: float | None = None
    """Monotonic seconds, while the store does not answer when the step is to be started."""
    attempts: int = 0
    """Attempts that this run began."""
    last_attempt: int = 0
    """Number of the last of them, in the store."""
    infrastructure_failures: int = 0
    exceptions: int = 0
    failure: Failure | None = None

    def count_failure(self, failure: Failure) -> bool:
        """Notes how an attempt failed; returns whether the step's retries allow another one."""
        self.failure = failure
        retry = self.planned.step.retry
        if failure.infrastructure:
            self.infrastructure_failures += 1
            return self.infrastructure_failures <= retry.infrastructure
        self.exceptions += 1
        return self.exceptions <= retry.exceptions


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How often the driver looks; seconds. The lease time is at least three heartbeats."""

    heartbeat: float = 3.0
    lease: float = 15.0
    poll: float = 0.5

    @classmethod
    def from_environment(cls) -> "Timing":
        """Reads MARIN_HEARTBEAT_SECONDS; the lease time is five of them.

        Raises:
            ConfigError: it is not a number above 0, or so long that a killed driver would keep its steps for hours.
        """
        text = os.environ.get("MARIN_HEARTBEAT_SECONDS", str(cls.heartbeat))
        try:
            heartbeat = float(text)
        except ValueError:
            heartbeat = 0.0
        if not 0 < heartbeat <= LONGEST_HEARTBEAT_SECONDS:
            raise ConfigError(
                f"MARIN_HEARTBEAT_SECONDS is {text!r}; a number of seconds above 0, and at most "
                f"{LONGEST_HEARTBEAT_SECONDS:g}, is needed, e.g. 3"
            )
        return cls(heartbeat=heartbeat, lease=LEASE_HEARTBEATS * heartbeat, poll=min(cls.poll, heartbeat))
