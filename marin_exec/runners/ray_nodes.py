"""Small tasks on one given node of the cluster: the last words of a process that was killed, and the end of those that
were cancelled."""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marin_exec.runners.captured_output import tail_of
from marin_exec.runners.ray_head import head_answers
from marin_exec.runners.ray_task import Started

LOOK_SECONDS = 0.05
GONE_SECONDS = 5.0
"""After which a process that was cancelled and still runs is killed by its number."""
ANSWER_SECONDS = 5.0
"""How much longer to wait for a node to say that it did so."""
LAST_WORDS_SECONDS = 10.0
"""How long a failure is held back until a task on its node has told what the process printed last."""
CONNECT_SECONDS = 2.0


def on_node(node_id: str, fn: Callable[..., Any], *arguments: Any, env: Mapping[str, str] | None = None) -> Any:
    """Starts `fn(*arguments)` on a node, beside whatever runs there; returns the reference of its result.

    Args:
        node_id: of the node; if it is gone, so is the task.
        fn: a module-level function of this package.
        arguments: what it gets.
        env: environment variables that its process needs.
    """
    import ray

    options: dict[str, Any] = {"num_cpus": 0, "max_retries": 0, "name": f"marin-exec {fn.__name__}"}
    options |= node_option(node_id)
    if env:
        options["runtime_env"] = {"env_vars": dict(env)}
    return ray.remote(fn).options(**options).remote(*arguments)


def node_option(node_id: str) -> dict[str, Any]:
    """Returns the option of a task that runs on one node or not at all."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False)}


def node_answers(node_id: str) -> bool:
    """Whether a node's raylet takes connections: Ray itself notices a lost node only after many seconds."""
    import ray

    if not head_answers():
        return False  # it cannot be asked where the node is
    node = next((each for each in ray.nodes() if each["NodeID"] == node_id), None)
    if node is None or not node["Alive"]:
        return False
    try:
        with socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), CONNECT_SECONDS):
            return True
    except OSError:
        return False


class LastWords:
    """What a process that was killed had printed last, read by a task on its node.

    Args:
        task: the killed one.
        env: its environment variables: who knows them knows what of the words is secret.
    """

    def __init__(self, task: Started, env: Mapping[str, str]):
        self._deadline = time.monotonic() + LAST_WORDS_SECONDS
        there = node_answers(task.node_id)
        self._words = on_node(task.node_id, take_last_words, task.output_path, env=env) if there else None

    def said(self) -> str | None:
        """Returns the words, "" if they cannot be had; None while they are on their way."""
        import ray
        from ray.exceptions import RayError

        if self._words is None:
            return ""
        if not ray.wait([self._words], timeout=0)[0]:
            if time.monotonic() < self._deadline:
                return None
            ray.cancel(self._words, force=True)
            return ""
        try:
            return ray.get(self._words)
        except RayError:  # the node went too; why the task failed is known without its words
            return ""

    def wait(self) -> str:
        while (words := self.said()) is None:
            time.sleep(LOOK_SECONDS)
        return words


def take_last_words(output_path: str) -> str:
    """On the node: returns the end of what a killed process printed, and removes the file."""
    try:
        said = tail_of(output_path)
        os.unlink(output_path)
    except FileNotFoundError:  # it ended by itself after all
        return ""
    return said


class Stopping:
    """Sees to it that cancelled tasks are gone; a cancelled process may be stopped, or hang in native code."""

    def __init__(self) -> None:
        self.tasks: list[Started] = []
        """Those that nobody has been sent to yet."""
        self._sent: list[Any] = []

    def send(self) -> None:
        """Starts a look on each node where tasks were cancelled since the last time; waits for nothing."""
        of_node: dict[str, list[Started]] = {}
        for task in self.tasks:
            of_node.setdefault(task.node_id, []).append(task)
        self.tasks.clear()
        self._sent += [on_node(node_id, see_gone, tasks, GONE_SECONDS) for node_id, tasks in of_node.items()]

    def wait(self) -> None:
        """Waits for all looks; what a node that died, or does not answer, ran cannot be seen to."""
        import ray

        self.send()
        if self._sent:
            ray.wait(self._sent, num_returns=len(self._sent), timeout=GONE_SECONDS + ANSWER_SECONDS)


def see_gone(tasks: Sequence[Started], seconds: float) -> list[int]:
    """On the node: waits until cancelled tasks run no more; kills the processes of those that do after so many seconds.

    A task is known by the file that its process prints to, so that a process that does something else by now, or another
    one with its number, is left alone. Where there is no /proc to look that up, nothing is killed.

    Returns:
        The numbers of the processes that had to be killed.
    """
    deadline = time.monotonic() + seconds
    left = [each for each in tasks if _runs(each)]
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        left = [each for each in left if _runs(each)]
    for each in left:
        os.kill(each.pid, signal.SIGKILL)
    for each in tasks:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(each.output_path)
    return [each.pid for each in left]


def _runs(task: Started) -> bool:
    if sys.platform != "linux":
        return False
    try:
        return os.readlink(f"/proc/{task.pid}/fd/1") == task.output_path
    except (FileNotFoundError, PermissionError):  # it ended; the number may be another user's process by now
        return False
