"""What travels between the driver and the process that executes one attempt of a step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from marin_exec.records import FileEntry
from marin_exec.resources import Resources
from marin_exec.secrets import redact
from marin_exec.step import Step
from marin_exec.store import Store


@dataclass(frozen=True, kw_only=True)
class AttemptTask:
    """One attempt, ready to be executed: nothing in it has to be looked up or planned again."""

    store: Store
    step_name: str
    kind_name: str
    digest: str
    attempt: int
    chain: int
    """The first attempt whose pieces this one may take up."""
    attempt_path: str
    """This attempt's directory, relative to the store's prefix."""
    fn: Callable[..., Any]
    config: Any
    """The step's config with every dependency replaced by its path."""
    content_digest: Callable[[str], str] | None
    source_digest: str
    source_is_identity: bool = False
    """The step's kind has no version, so other code would make another step."""
    resources: Resources
    shard_retries: int = 0
    """How often each shard whose process the cluster lost is run again within the attempt."""
    source_found: dict[str, Any] | None = None
    """Digest and functions of the code as a worker imported it, if that was other code than the plan's."""
    cpu_limit: float | None = None
    """What a cluster of one machine has at most; None where more may come."""
    rank: int = 0
    """Which of the processes that run the attempt gets this; there are `resources.ranks`."""
    coordinator: str = ""
    """"host:port" for the ranks to meet; "" if there is but one."""


@dataclass(frozen=True, kw_only=True)
class AttemptOutput:
    """What a finished attempt left: all that its record will say of its output."""

    files: tuple[FileEntry, ...]
    output_digest: str
    output_path: str | None = None
    """Where the files are if not in the attempt's directory: of data that was adopted where it lies."""
    result: Any = None
    result_type: str | None = None
    measured: dict[str, Any] = field(default_factory=dict)
    seconds: float
    worker_peak_memory_bytes: int
    """Of the process that ran the step, over its whole life: an upper bound for the step itself, shards not counted."""
    source: dict[str, Any] | None
    """The task's `source_found`."""
    pieces_made: int
    pieces_taken_up: int
    milestones: tuple[str, ...]
    host: str


@dataclass(frozen=True)
class RankEnded:
    """A rank other than 0 returned: what it wrote is part of the attempt's output, which rank 0 describes."""

    rank: int


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why an attempt ended badly, in plain values without secrets: it crosses process borders whatever the step raised."""

    reason: str
    """One line: exception type and message, or what killed the process."""
    infrastructure: bool
    """The worker or its node died or ran out of memory; the step function itself did not raise."""
    traceback: str = ""
    output_tail: str = ""
    """The end of what the process printed."""
    mismatch: bool = False
    """The step found other content than the experiment states (`IdentityMismatch`)."""

    def __post_init__(self) -> None:
        # Where a failure is made, because that process knows which values of its environment are secret.
        for name in ("reason", "traceback", "output_tail"):
            object.__setattr__(self, name, redact(getattr(self, name)))


class Backend(Protocol):
    """Carries attempts to where they run. All methods but `wake` are called from the scheduler's one thread."""

    name: str
    capacity: int
    """How many attempts may be submitted at a time; more would only hold leases while they queue."""

    def start(self) -> None:
        """Gets ready to run attempts; called once, and only if something has to run."""
        ...

    def check(self, store: Store, steps: Sequence[Step], say: Callable[[str], None]) -> None:
        """Looks, before anything runs, whether steps can run where they would.

        Args:
            store: which they read and write.
            steps: those that may run.
            say: takes a line about what need not be wrong, but may be.

        Raises:
            ConfigError: what is wrong, where, and what to do.
        """
        ...

    def submit(self, task: AttemptTask) -> str:
        """Starts an attempt; returns a token for it."""
        ...

    def finished(self, timeout_seconds: float) -> list[tuple[str, AttemptOutput | Failure]]:
        """Returns attempts that ended, waiting at most that long for one."""
        ...

    def wake(self) -> None:
        """Has a `finished` that waits return early, or the next one; called from any thread."""
        ...

    def queued(self, token: str) -> str:
        """Returns in words what an attempt waits for that does not run yet; "" once it runs."""
        ...

    def cancel(self, token: str) -> None:
        """Stops an attempt at once, by force if need be. It no longer appears in `finished`."""
        ...

    def stop(self) -> None:
        """Releases what `start` took."""
        ...

    def describe(self) -> dict[str, Any]:
        """Returns what the records say of the backend (name, Ray job and address)."""
        ...
