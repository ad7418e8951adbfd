"""One attempt on Ray: as many tasks as the step has ranks, begun together, and ended together when one of them fails.

Several ranks stand in a placement group, so that none of them starts while there is no place for all. Rank 0 describes
the output once the others have ended, and its description is the attempt's outcome.
"""

import dataclasses
import math
import secrets
import socket
import time
from collections.abc import Generator, Sequence
from typing import Any

from marin_exec.runners.attempt import execute, execute_rank
from marin_exec.runners.capacity import needs_of
from marin_exec.runners.code_that_ran import with_source_found
from marin_exec.runners.ray_head import head_answers
from marin_exec.runners.ray_nodes import LastWords, node_answers
from marin_exec.runners.ray_shards import at_most, map_on_ray
from marin_exec.runners.ray_task import RayTask, Started, reporting
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure, RankEnded

CAUSE_SECONDS = 2.0
"""How long an exception in one rank waits for news that another rank's process died, which would be its cause."""


def run_rank_on_worker(
    pickled: bytes, coordinator: str, other_ranks: Sequence[Any]
) -> Generator[Started | AttemptOutput | RankEnded | Failure]:
    """Runs in a Ray worker: one rank of an attempt.

    Args:
        pickled: its AttemptTask.
        coordinator: "host:port" for the ranks to meet, or "".
        other_ranks: for rank 0, references that are ready when the other ranks have ended.
    """
    import sys

    import ray
    from ray import cloudpickle

    loaded_before = set(sys.modules)
    task: AttemptTask = cloudpickle.loads(pickled)
    task = dataclasses.replace(with_source_found(task, loaded_before), coordinator=coordinator)
    if task.rank:
        yield from reporting(lambda: execute_rank(task, map_on_ray))
        return

    def wait_for_ranks() -> None:
        if other_ranks:
            ray.wait(list(other_ranks), num_returns=len(other_ranks))

    yield from reporting(lambda: execute(task, map_on_ray, wait_for_ranks))


def _free_address() -> str:
    """Runs in a Ray worker: returns a host and port of its node that nothing listens on."""
    from ray.util import get_node_ip_address

    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{get_node_ip_address()}:{probe.getsockname()[1]}"


class RayAttempt:
    """The ranks of one attempt in flight.

    Args:
        task: what rank 0 gets.
        remote: `run_rank_on_worker` as a remote function, exported once.
        environment: Ray's `runtime_env` for it.
        stopped: takes where the ranks run that are stopped by force.
    """

    def __init__(self, task: AttemptTask, remote: Any, environment: dict[str, Any], stopped: list[Started]):
        from ray import cloudpickle

        self._stopped = stopped
        self._group: Any = None
        self._lost: RayTask | None = None
        """The rank whose process or node died; the attempt is over, but for its last words."""
        self._last_words: LastWords | None = None
        options = _options(task, environment)
        self.resources = dataclasses.replace(task.resources, cpus=options["num_cpus"])
        """As asked for, with no more CPUs than there are."""
        num_ranks = task.resources.ranks
        if num_ranks == 1:
            self.ranks = [RayTask(remote.options(**options).remote(cloudpickle.dumps(task), "", ()))]
            return
        placed = self._placed(options)
        coordinator = self._coordinator(placed[0])
        of_rank = [cloudpickle.dumps(dataclasses.replace(task, rank=rank)) for rank in range(num_ranks)]
        others = [
            RayTask(remote.options(**placed[rank]).remote(of_rank[rank], coordinator, ()), f"rank {rank}")
            for rank in range(1, num_ranks)
        ]
        ends = [each.stream.completed() for each in others]
        self.ranks = [RayTask(remote.options(**placed[0]).remote(of_rank[0], coordinator, ends), "rank 0"), *others]

    def _placed(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """Makes the placement group, and returns each rank's options in it."""
        from ray.util import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        bundle = needs_of(self.resources) or {"CPU": 0.001}
        num_ranks = self.resources.ranks
        # Ray gives a process with another environment to nobody else: libraries that join processes can do so only once in each.
        # The group's name has to be one that no other driver's has: steps of one name may run at the same time.
        this = f"{options['name']} {secrets.token_hex(8)}"
        env_vars = {**options.get("runtime_env", {}).get("env_vars", {}), "MARIN_RANKS_OF": this}
        self._group = placement_group([bundle] * num_ranks, strategy="PACK", name=this)
        return [
            options
            | {
                "name": f"{options['name']} rank {rank}",
                "runtime_env": {**options.get("runtime_env", {}), "env_vars": env_vars},
                "scheduling_strategy": PlacementGroupSchedulingStrategy(self._group, rank),
            }
            for rank in range(num_ranks)
        ]

    def _coordinator(self, options_of_rank_0: dict[str, Any]) -> Any:
        import ray

        where = options_of_rank_0["scheduling_strategy"]
        options = {"num_cpus": 0, "max_retries": 0, "name": "coordinator", "scheduling_strategy": where}
        return ray.remote(_free_address).options(**options).remote()

    def in_flight(self) -> dict[Any, RayTask]:
        """Returns the ranks that have not ended, by their streams."""
        return {each.stream: each for each in self.ranks if each.outcome is None}

    def outcome(self) -> AttemptOutput | Failure | None:
        """Returns how the attempt ended, or None while it goes on; when one rank has failed the others are stopped."""
        if self._lost is not None:
            return self._with_last_words(self._lost)
        failed = [each for each in self.ranks if isinstance(each.outcome, Failure)]
        if not failed:
            return None if self.in_flight() else self._over(self.ranks[0].outcome)
        self._lost = next((each for each in failed if each.outcome.infrastructure), None)
        if self._lost is not None:
            self.cancel()
            return self._with_last_words(self._lost)
        first = min(failed, key=lambda each: each.ended)
        left = self.in_flight().values()
        if left and time.monotonic() - first.ended < CAUSE_SECONDS:
            return None  # an exception may only be how this rank noticed that another one is gone
        silent = [each for each in left if each.started is not None and not node_answers(each.started.node_id)]
        if silent:
            reason = f"{silent[0].what}: its node does not answer; {first.outcome.reason}"
            return self._over(dataclasses.replace(first.outcome, reason=reason, infrastructure=True))
        return self._over(first.outcome)

    def _with_last_words(self, lost: RayTask) -> Failure | None:
        """Returns the failure of a rank that the cluster lost, once it is known what its process had printed last."""
        if lost.started is None:
            return lost.outcome
        if self._last_words is None:
            self._last_words = LastWords(lost.started, self.resources.env)
        words = self._last_words.said()
        return None if words is None else dataclasses.replace(lost.outcome, output_tail=words)

    @property
    def runs(self) -> bool:
        """Whether all ranks have begun."""
        return all(each.started is not None for each in self.ranks)

    def _over(self, outcome: Any) -> Any:
        self.cancel()
        return outcome

    def cancel(self) -> None:
        """Stops the ranks that still run, by force, and gives their place back."""
        for task in self.in_flight().values():
            task.cancel()
            if task.started is not None:
                self._stopped.append(task.started)
        if self._group is not None:
            from ray.util import remove_placement_group

            if head_answers():  # without a head the group is gone, and the call would wait for it
                remove_placement_group(self._group)
            self._group = None


def _options(task: AttemptTask, environment: dict[str, Any]) -> dict[str, Any]:
    """Returns Ray's options for one rank; retries are the scheduler's own, so Ray's are off."""
    resources = task.resources
    cpus = at_most(resources.cpus, task.cpu_limit and task.cpu_limit / resources.ranks)
    options: dict[str, Any] = {
        "num_cpus": cpus if cpus == resources.cpus or cpus < 1 else math.floor(cpus),  # Ray gives whole ones only
        "num_gpus": resources.gpus or None,
        "memory": resources.memory_bytes,
        "resources": dict(resources.custom) or None,
        "runtime_env": environment or None,
        "num_returns": "streaming",
        "max_retries": 0,
        "name": f"{task.step_name} a{task.attempt}",
    }
    return {key: value for key, value in options.items() if value is not None}
