"""The `ray` backend: one Ray task per attempt, and one per shard of `map_shards`.

Ray only carries tasks. Nothing durable is in its object store or its control store; results that cross it are small
descriptions of files. Retries are the scheduler's own (Ray's are off for attempts), so they are counted in the store.

Without an address, a cluster is started on this machine, bound to the loopback interface, and stopped at the end.
"""

import contextlib
import dataclasses
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from marin_exec.errors import ConfigError, StepFailed, StoreError
from marin_exec.runners.attempt import execute, with_source_found
from marin_exec.runners.failures import failure_of
from marin_exec.runners.ray_messages import COLOUR, RayMessages
from marin_exec.runners.shards import ShardTask, run_shard
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure
from marin_exec.secrets import LONGEST_TOKEN, redact
from marin_exec.store import Piece

LOCAL_OBJECT_STORE_BYTES = 256 * 2**20  # steps pass paths, not values
MOST_IN_FLIGHT = 1_000
SHARD_RETRIES = 2
TAIL_CHARACTERS = 8_000


class RayBackend:
    """Runs attempts on a Ray cluster.

    Args:
        address: of an existing cluster; None takes RAY_ADDRESS. Nothing there, or "local", starts one on this machine.
        num_cpus: of a cluster started here; None takes what the machine has.
        by_value: names of modules that workers may not be able to import (an experiment outside the project, and its
            helper modules): their functions and classes travel with the task.
    """

    name = "ray"
    capacity = 256  # Ray queues what does not fit on the cluster; thousands at once stall it

    def __init__(self, address: str | None = None, num_cpus: int | None = None, by_value: Iterable[str] = ()):
        chosen = address or os.environ.get("RAY_ADDRESS")
        self._address = None if chosen in (None, "", "local") else chosen
        self._num_cpus = num_cpus
        self._by_value = tuple(by_value)
        self._refs: dict[Any, str] = {}
        self._messages = contextlib.ExitStack()

    def start(self) -> None:
        if self._address is None:
            # Both must be set before Ray is imported: bind to loopback, and no usage reports.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray
        from ray import cloudpickle

        for name in self._by_value:
            if name in sys.modules:
                cloudpickle.register_pickle_by_value(sys.modules[name])
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
        if self._address is None:
            options |= {
                "num_cpus": self._num_cpus,
                "include_dashboard": False,
                "object_store_memory": LOCAL_OBJECT_STORE_BYTES,
            }
        self._messages.enter_context(contextlib.redirect_stdout(RayMessages()))
        try:
            ray.init(address=self._address or "local", namespace="marin-exec", **options)
        except ConnectionError as error:
            raise ConfigError(
                f"no Ray cluster at {self._address!r} ({error}); start one with `ray start --head`, give another --address, "
                f"or leave it out to start one on this machine"
            ) from error

    def submit(self, task: AttemptTask) -> str:
        import ray
        from ray import cloudpickle

        if task.store.prefix.startswith("memory://"):
            raise StoreError(
                f"store {task.store.prefix}: lives in one process, and Ray runs steps in others; use a file:// store, "
                f"or --backend local"
            )
        token = f"{task.digest}/{task.attempt}"
        resources = task.resources
        if self._address is None:
            task = dataclasses.replace(task, cpu_limit=self._checked_cpus(task))
        options: dict[str, Any] = {
            "num_cpus": _at_most(resources.cpus, task.cpu_limit),
            "num_gpus": resources.gpus or None,
            "memory": resources.memory_bytes,
            "resources": dict(resources.custom) or None,
            "max_retries": 0,
            "name": f"{task.step_name} a{task.attempt}",
        }
        if resources.env:
            options["runtime_env"] = {"env_vars": dict(resources.env)}
        given = {key: value for key, value in options.items() if value is not None}
        self._refs[ray.remote(_execute_on_worker).options(**given).remote(cloudpickle.dumps(task))] = token
        return token

    def _checked_cpus(self, task: AttemptTask) -> float:
        """Returns the CPUs of the cluster on this machine, which never grows: what it has not got, nobody waits for.

        Raises:
            StepFailed: the step needs something else of which there is too little.
        """
        import ray

        there, wanted = ray.cluster_resources(), task.resources
        needs = {"GPU": wanted.gpus, "memory": wanted.memory_bytes or 0, **wanted.custom}
        for name, amount in needs.items():
            if amount > there.get(name, 0):
                raise StepFailed(
                    f"step {task.step_name}: needs {amount:g} {name}, and the cluster on this machine has "
                    f"{there.get(name, 0):g}; run on a cluster that has it (--address), or lower the step's resources"
                )
        return there.get("CPU", 1)

    def finished(self, timeout_seconds: float) -> list[tuple[str, AttemptOutput | Failure]]:
        import ray

        if not self._refs:
            time.sleep(timeout_seconds)
            return []
        ready, _ = ray.wait(list(self._refs), num_returns=1, timeout=timeout_seconds)
        if ready:  # and all others that have ended meanwhile
            ready, _ = ray.wait(list(self._refs), num_returns=len(self._refs), timeout=0)
        return [(self._refs.pop(ref), _outcome(ref)) for ref in ready]

    def cancel(self, token: str) -> None:
        import ray

        for ref in [ref for ref, each in self._refs.items() if each == token]:
            ray.cancel(ref, force=True, recursive=True)
            del self._refs[ref]

    def stop(self) -> None:
        import ray

        self._refs.clear()
        ray.shutdown()
        self._messages.close()

    def describe(self) -> dict[str, Any]:
        import ray

        context = ray.get_runtime_context()
        return {
            "name": self.name,
            "address": self._address or "started for this run",
            "job_id": context.get_job_id(),
            "ray_version": ray.__version__,
        }


def _outcome(ref: Any, what: str = "") -> Any:
    """Returns what a finished task returned; the cluster's own failures become a Failure too.

    Args:
        ref: of the task's result.
        what: which part of a step the task was.
    """
    import ray
    from ray import exceptions

    infrastructure = (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.OutOfMemoryError,
        exceptions.LocalRayletDiedError,
        exceptions.ObjectLostError,
        exceptions.OwnerDiedError,
        exceptions.TaskUnschedulableError,
    )
    try:
        return ray.get(ref)
    except infrastructure as error:
        reason = f"{what}: {_cluster_reason(error)}" if what else _cluster_reason(error)
        return Failure(reason=reason, infrastructure=True)
    except exceptions.RayError as error:
        # The wrapper itself could not run: a module missing on the worker, an environment that cannot be built.
        text = COLOUR.sub("", str(error))
        reason = f"the worker could not run {what or 'the step'}: {' '.join(redact(text).split())[-400:]}"
        return Failure(reason=reason, infrastructure=False, traceback=text)


def _cluster_reason(error: Exception) -> str:
    """Returns in one line why the cluster lost a task: Ray explains at length, its first sentences say what happened."""
    if type(error).__name__ == "WorkerCrashedError":  # Ray's own text says only that, and where its logs would be
        return "WorkerCrashedError: the worker process died: killed, crashed in native code, or it ended itself"
    first = " ".join(COLOUR.sub("", str(error)).split())
    return f"{type(error).__name__}: {first[:300]}{'...' if len(first) > 300 else ''}"


def _execute_on_worker(pickled: bytes) -> AttemptOutput | Failure:
    """Runs in a Ray worker: executes an attempt, keeping the end of what it printed for the log of a failure."""
    from ray import cloudpickle

    loaded_before = set(sys.modules)
    task: AttemptTask = cloudpickle.loads(pickled)
    return _with_output_tail(lambda: execute(with_source_found(task, loaded_before), _map_on_ray))


def _run_shard_on_worker(pickled: bytes) -> Piece | Failure:
    """Runs in a Ray worker: an error comes back as plain values, because an exception may not survive the way."""
    from ray import cloudpickle

    shard: ShardTask = cloudpickle.loads(pickled)
    return _with_output_tail(lambda: run_shard(shard))


def _with_output_tail[T](run: Callable[[], T | Failure]) -> T | Failure:
    with CapturedOutput() as printed:
        try:
            outcome = run()
        except KeyboardInterrupt as error:  # raised by the step itself: a cancelled task is killed
            outcome = failure_of(error)
    if isinstance(outcome, Failure) and not outcome.output_tail:
        return dataclasses.replace(outcome, output_tail=printed.tail())
    return outcome


def _at_most(cpus: float, limit: float | None) -> float:
    return cpus if limit is None else min(cpus, limit)


def _map_on_ray(shards: list[ShardTask], cpus: float) -> Generator[Piece | Failure]:
    """Runs shards as Ray tasks, a bounded number in flight, and yields their outcomes as they finish.

    Closing the generator stops the shards in flight: a step that failed leaves nothing running.
    """
    import ray
    from ray import cloudpickle

    remote = ray.remote(_run_shard_on_worker)
    cores = ray.cluster_resources().get("CPU", 1)
    window = min(MOST_IN_FLIGHT, max(2, math.ceil(2 * cores / max(cpus, 0.01))))
    waiting = list(reversed(shards))
    in_flight: dict[Any, str] = {}
    try:
        while waiting or in_flight:
            while waiting and len(in_flight) < window:
                shard = waiting.pop()
                label = f"{shard.task.step_name} {shard.name}"
                num_cpus = _at_most(cpus, shard.task.cpu_limit)
                options = {"name": label, "num_cpus": num_cpus, "max_retries": SHARD_RETRIES}
                in_flight[remote.options(**options).remote(cloudpickle.dumps(shard))] = shard.name
            for ref in ray.wait(list(in_flight), num_returns=1)[0]:
                yield _outcome(ref, f"shard {in_flight.pop(ref)}")
    finally:
        for ref in in_flight:
            ray.cancel(ref, force=True)


class CapturedOutput:
    """Sends this process's stdout and stderr, C level included, to a file while it is active."""

    def __enter__(self) -> "CapturedOutput":
        self._file = tempfile.TemporaryFile()
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = (os.dup(1), os.dup(2))
        os.dup2(self._file.fileno(), 1)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for saved, descriptor in zip(self._saved, (1, 2), strict=True):
            os.dup2(saved, descriptor)
            os.close(saved)
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, size - TAIL_CHARACTERS - LONGEST_TOKEN))
        self._tail = redact(self._file.read().decode(errors="replace"))[-TAIL_CHARACTERS:]
        self._file.close()

    def tail(self) -> str:
        """Returns the end of what was printed; valid after the block."""
        return self._tail
