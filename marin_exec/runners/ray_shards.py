"""Shards of `map_shards` on Ray: one task each, started by the worker that runs the step."""

import dataclasses
import math
from collections.abc import Generator
from typing import Any

from marin_exec.runners.code_that_ran import with_source_found
from marin_exec.runners.ray_nodes import LastWords
from marin_exec.runners.ray_task import RayTask, Started, advance_some, reporting
from marin_exec.runners.shards import ShardLost, ShardTask, run_shard
from marin_exec.runners.task import Failure
from marin_exec.store import Piece

MOST_IN_FLIGHT = 1_000


def run_shard_on_worker(pickled: bytes) -> Generator[Started | Piece | Failure]:
    """Runs in a Ray worker."""
    import sys

    from ray import cloudpickle

    loaded_before = set(sys.modules)
    shard: ShardTask = cloudpickle.loads(pickled)
    shard = dataclasses.replace(shard, task=with_source_found(shard.task, loaded_before))
    yield from reporting(lambda: run_shard(shard))


def map_on_ray(shards: list[ShardTask], cpus: float) -> Generator[Piece | Failure | ShardLost]:
    """Runs shards as Ray tasks, a bounded number in flight, and yields their outcomes as they finish.

    A shard that the cluster lost is started again, as often as the step's `Retry` says. Closing the generator stops the
    shards in flight: a step that failed leaves nothing running.
    """
    import ray
    from ray import cloudpickle

    remote = ray.remote(run_shard_on_worker)
    cores = ray.cluster_resources().get("CPU", 1)
    window = min(MOST_IN_FLIGHT, max(2, math.ceil(2 * cores / max(cpus, 0.01))))
    waiting = [(shard, 0) for shard in reversed(shards)]
    in_flight: dict[Any, RayTask] = {}
    shard_of: dict[Any, tuple[ShardTask, int]] = {}
    try:
        while waiting or in_flight:
            while waiting and len(in_flight) < window:
                shard, times_lost = waiting.pop()
                options = {
                    "name": f"{shard.task.step_name} {shard.name}",
                    "num_cpus": at_most(cpus, shard.task.cpu_limit),
                    "num_returns": "streaming",
                    "max_retries": 0,
                }
                task = RayTask(remote.options(**options).remote(cloudpickle.dumps(shard)), f"shard {shard.name}")
                in_flight[task.stream], shard_of[task.stream] = task, (shard, times_lost)
            for task in advance_some(in_flight, None):
                del in_flight[task.stream]
                (shard, times_lost), outcome = shard_of.pop(task.stream), task.outcome
                lost = isinstance(outcome, Failure) and outcome.infrastructure
                if lost and task.started is not None:
                    words = LastWords(task.started, shard.task.resources.env).wait()
                    outcome = dataclasses.replace(outcome, output_tail=words)
                if lost and times_lost < shard.task.shard_retries:
                    waiting.append((shard, times_lost + 1))
                    yield ShardLost(shard.name, outcome, times_lost + 1)
                else:
                    yield outcome
    finally:
        for task in in_flight.values():
            task.cancel()


def at_most(cpus: float, limit: float | None) -> float:
    """Returns a number of CPUs that a cluster of `limit` CPUs can give; None stands for one that may grow."""
    return cpus if limit is None else min(cpus, limit)
