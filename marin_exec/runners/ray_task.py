"""One process's work on Ray, as both ends see it: a generator that yields first where it runs, then how it ended.

So a task that runs can be told from one that queues in Ray, and whoever started it knows which process to kill, and
where the last words of one that was killed stand. What ended it comes back in plain values, because an exception may
not survive the way.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from marin_exec.runners.captured_output import CapturedOutput
from marin_exec.runners.failures import failure_of
from marin_exec.runners.ray_messages import COLOUR
from marin_exec.runners.task import Failure
from marin_exec.secrets import redact

WORKER_DIED = "WorkerCrashedError: the worker process died: killed, crashed in native code, or it ended itself"


@dataclass(frozen=True)
class Started:
    """Where a task runs."""

    node_id: str
    host: str
    """Address of the node."""
    pid: int
    output_path: str
    """On that node, of the file with what it prints; gone when the task has ended well."""


def reporting[T](run: Callable[[], T | Failure]) -> Generator[Started | T | Failure]:
    """In a worker: yields where this is, then what `run` returns, which is its failure if it is interrupted."""
    import ray
    from ray.util import get_node_ip_address

    with CapturedOutput() as printed:
        node_id = ray.get_runtime_context().get_node_id()
        yield Started(node_id, get_node_ip_address(), os.getpid(), printed.path)
        try:
            outcome = run()
        except KeyboardInterrupt as error:  # raised by the step itself: a cancelled task is killed
            outcome = failure_of(error)
    if isinstance(outcome, Failure) and not outcome.output_tail:
        outcome = dataclasses.replace(outcome, output_tail=printed.tail())
    yield outcome


class RayTask:
    """A task in flight.

    Args:
        stream: the generator that Ray gave for it.
        what: which part of a step it is, for the reason of a failure; "" for the whole.
    """

    def __init__(self, stream: Any, what: str = ""):
        self.stream = stream
        self.what = what
        self.started: Started | None = None
        """None while it queues."""
        self.outcome: Any = None
        """What the task yielded last, or the Failure that the cluster made of it; None until then."""
        self.ended = 0.0
        """Monotonic seconds, when the outcome was seen."""

    def advance(self) -> None:
        """Takes what the task has said so far, without waiting."""
        import ray

        while self.outcome is None and ray.wait([self.stream], timeout=0)[0]:
            said = self._next()
            if isinstance(said, Started):
                self.started = said
            else:
                self.outcome, self.ended = said, time.monotonic()

    def _next(self) -> Any:
        """Returns the next thing that the task said; the cluster's own failures become a Failure."""
        import ray
        from ray import exceptions

        try:
            return ray.get(next(self.stream))
        except StopIteration:  # the stream is over, and Ray has no error for it: seen of workers killed at their end
            reason = f"{self.what}: {WORKER_DIED}" if self.what else WORKER_DIED
            return Failure(reason=reason, infrastructure=True)
        except lost_by_cluster() as error:
            reason = f"{self.what}: {cluster_reason(error)}" if self.what else cluster_reason(error)
            return Failure(reason=reason, infrastructure=True)
        except exceptions.RayError as error:
            # The wrapper itself could not run: a module missing on the worker, an environment that cannot be built.
            text = COLOUR.sub("", str(error))
            reason = f"the worker could not run {self.what or 'the step'}: {' '.join(redact(text).split())[-400:]}"
            return Failure(reason=reason, infrastructure=False, traceback=text)

    def cancel(self) -> None:
        """Kills the process, and those of the shards that it started."""
        import ray

        ray.cancel(self.stream, force=True, recursive=True)


def lost_by_cluster() -> tuple[type[Exception], ...]:
    """Returns the exceptions that mean: the cluster lost the task, and it might go well another time."""
    from ray import exceptions

    return (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.OutOfMemoryError,
        exceptions.LocalRayletDiedError,
        exceptions.ObjectLostError,
        exceptions.OwnerDiedError,
        exceptions.TaskUnschedulableError,
    )


def advance_some(tasks: dict[Any, RayTask], timeout_seconds: float | None) -> list[RayTask]:
    """Waits until one of the tasks says something, takes that, and returns the tasks that have ended.

    Args:
        tasks: by their streams.
        timeout_seconds: how long to wait at most; None for as long as it takes.
    """
    import ray

    ready, _ = ray.wait(list(tasks), num_returns=1, timeout=timeout_seconds)
    if ready:  # and all others that have said something meanwhile
        ready, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=0)
    for stream in ready:
        tasks[stream].advance()
    return [tasks[stream] for stream in ready if tasks[stream].outcome is not None]


def cluster_reason(error: Exception) -> str:
    """Returns in one line why the cluster lost a task: Ray explains at length, its first sentences say what happened."""
    if type(error).__name__ == "WorkerCrashedError":  # Ray's own text says only that, and where its logs would be
        return WORKER_DIED
    first = " ".join(COLOUR.sub("", str(error)).split())
    return f"{type(error).__name__}: {first[:300]}{'...' if len(first) > 300 else ''}"
