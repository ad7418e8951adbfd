"""The `ray` backend: an attempt is a Ray task for each rank of its step, and a task for each shard of `map_shards`.

Ray only carries tasks. Nothing durable is in its object store or its control store; results that cross it are small
descriptions of files. Retries are the engine's own (Ray's are off), so they are counted in the store.

Without an address, a cluster is started on this machine, bound to the loopback interface, and stopped at the end.
"""

import contextlib
import dataclasses
import functools
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from marin_exec.errors import ConfigError, StepFailed
from marin_exec.runners.capacity import place_of, shortfall
from marin_exec.runners.preflight import PREFLIGHT_SECONDS, problems_of_cluster
from marin_exec.runners.ray_attempt import RayAttempt, run_rank_on_worker
from marin_exec.runners.ray_environments import Environments
from marin_exec.runners.ray_head import HeadWatch, head_answers
from marin_exec.runners.ray_messages import RayMessages
from marin_exec.runners.ray_nodes import Stopping
from marin_exec.runners.ray_task import advance_some
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure
from marin_exec.step import Step
from marin_exec.store import Store

LONGEST_SLEEP_SECONDS = 0.05  # between two looks at whether the scheduler wants to be woken
LOCAL_OBJECT_STORE_BYTES = 256 * 2**20  # steps pass paths, not values
CONNECT_SECONDS = 10.0
NODES_SECONDS = 5.0
"""How old the list of nodes may be that says what the cluster has."""


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
        self._attempts: dict[str, RayAttempt] = {}
        self._woken = threading.Event()
        self._stopping = Stopping()
        self._environments = Environments()
        self._head = HeadWatch()
        self._imported = False
        """Whether there is a Ray to stop: an interrupt may come in the middle of its import."""
        self._run_rank: Any = None
        self._messages = contextlib.ExitStack()
        self._nodes: list[dict[str, float]] = []
        self._nodes_seen = -math.inf

    def start(self) -> None:
        # Ray reads these when it is imported.
        if self._address is None:
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # so it binds to the loopback interface
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault(
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
        )  # steps without GPUs: leave their variables alone
        import ray
        from ray import cloudpickle

        self._imported = True
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
        if self._address is not None:
            _check_listens(self._address)
        try:
            ray.init(address=self._address or "local", namespace="marin-exec", **options)
        except ConnectionError as error:
            raise _no_cluster(self._address, error) from error
        except RuntimeError as error:  # e.g. the cluster has another version of Ray or Python
            raise ConfigError(
                f"the Ray cluster at {self._address!r} cannot be used: {' '.join(str(error).split())}"
            ) from error
        except Exception as error:  # Ray says with a bare Exception that its processes did not come up in time
            raise ConfigError(
                f"Ray did not start: {error}. Its logs are in /tmp/ray/session_latest/logs. Try again when the machine is less "
                f"busy, or take --backend local, which does without Ray"
            ) from error
        self._head = HeadWatch()
        self._run_rank = ray.remote(run_rank_on_worker)

    def check(self, store: Store, steps: Sequence[Step], say: Callable[[str], None]) -> None:
        if store.prefix.startswith("memory://"):
            raise ConfigError(
                f"store {store.prefix}: lives in one process, and Ray runs steps in others; use a file:// store, "
                f"or --backend local"
            )
        if self._address is None:
            problems = self._environments.check(steps, PREFLIGHT_SECONDS)
        else:
            problems = problems_of_cluster(store, steps, self._by_value, self._environments, say)
        if problems:
            lines = "\n".join(f"  {each}" for each in problems)
            raise ConfigError(f"the cluster cannot run this; nothing was started:\n{lines}")

    def submit(self, task: AttemptTask) -> str:
        if self._address is None:
            task = dataclasses.replace(task, cpu_limit=self._checked_cpus(task))
        token = f"{task.digest}/{task.attempt}"
        self._attempts[token] = RayAttempt(
            task, self._run_rank, self._environments.of(task.resources), self._stopping.tasks
        )
        return token

    @functools.cached_property
    def _own_node(self) -> dict[str, float]:
        """What the cluster on this machine has; asking it takes as long as sending a task does."""
        import ray

        (node,) = ray.nodes()
        return node["Resources"]

    def _checked_cpus(self, task: AttemptTask) -> float:
        """Returns the CPUs of the cluster on this machine, which never grows: what it has not got, nobody waits for.

        Raises:
            StepFailed: the step needs something else of which there is too little.
        """
        there = self._own_node
        lacks = shortfall(dataclasses.replace(task.resources, cpus=0), [there])
        if lacks:
            raise StepFailed(
                f"step {task.step_name}: {lacks}; it is this machine. Run on a cluster that has it (--address), or lower "
                f"the step's resources"
            )
        return there.get("CPU", 1)

    def finished(self, timeout_seconds: float) -> list[tuple[str, AttemptOutput | Failure]]:
        tasks = {stream: task for attempt in self._attempts.values() for stream, task in attempt.in_flight().items()}
        deadline = time.monotonic() + timeout_seconds
        while not self._woken.is_set() and (left := deadline - time.monotonic()) > 0:
            if not tasks:
                self._woken.wait(left)
            elif advance_some(tasks, min(left, LONGEST_SLEEP_SECONDS)):
                break
        self._woken.clear()
        self._head.look()
        if self._head.is_well:
            self._stopping.send()
        outcomes = {token: attempt.outcome() for token, attempt in self._attempts.items()}
        ended = [(token, outcome) for token, outcome in outcomes.items() if outcome is not None]
        for token, _ in ended:
            del self._attempts[token]
        return ended

    def wake(self) -> None:
        self._woken.set()

    def queued(self, token: str) -> str:
        import ray

        attempt = self._attempts.get(token)
        if attempt is None or attempt.runs:
            return ""
        if self._head.is_well and time.monotonic() > self._nodes_seen + NODES_SECONDS:
            self._nodes_seen = time.monotonic()
            self._nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not self._head.is_well:
            return "the cluster's head does not answer"
        place = f"waits for a place on the cluster, which is in use ({place_of(attempt.resources)})"
        return shortfall(attempt.resources, self._nodes) or place

    def cancel(self, token: str) -> None:
        attempt = self._attempts.pop(token, None)
        if attempt is not None:
            attempt.cancel()

    def stop(self) -> None:
        self._attempts.clear()
        if self._imported:
            import ray

            if ray.is_initialized() and head_answers():
                self._stopping.wait()
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


def _check_listens(address: str) -> None:
    """Raises ConfigError if nobody listens at "host:port": Ray itself tries that for minutes. Other forms are Ray's to judge."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: Exception) -> ConfigError:
    return ConfigError(
        f"no Ray cluster at {address!r} ({error}); start one with `ray start --head`, give another --address, or leave it "
        f"out to start one on this machine"
    )
