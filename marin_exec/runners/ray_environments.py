"""Runtime environments of steps: local paths are checked and copied to the cluster, and each environment is built once
before the run starts anything, because Ray says only hours later, when the step's turn comes, that it cannot be."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from marin_exec.errors import ConfigError
from marin_exec.resources import Resources
from marin_exec.runners.ray_messages import COLOUR
from marin_exec.runners.ray_task import lost_by_cluster
from marin_exec.secrets import redact
from marin_exec.step import Step
from marin_exec.wording import some_of

LAST_LINES = 3
MOST_NAMED = 5
LONGEST_ERROR = 1_000


class Environments:
    """Ray's form of each step's runtime environment."""

    def __init__(self) -> None:
        self._ready: dict[str, dict[str, Any]] = {}

    def of(self, resources: Resources) -> dict[str, Any]:
        """Returns the `runtime_env` option of a step's tasks; {} if it needs none. Local folders are uploaded once.

        Raises:
            ConfigError: a local path in it does not exist.
        """
        given = dict(resources.runtime_env)
        if given:
            key = json.dumps(given, sort_keys=True, default=str)
            if key not in self._ready:
                check_paths(given)
                self._ready[key] = _uploaded(given)
            given = dict(self._ready[key])
        return {**given, **({"env_vars": dict(resources.env)} if resources.env else {})}

    def check(self, steps: Sequence[Step], seconds: float) -> list[str]:
        """Builds each environment once, at the same time; returns what is wrong, naming steps, and why.

        Args:
            steps: those that may run.
            seconds: how long to wait; an environment that takes longer is not known to be wrong.
        """
        import ray
        from ray.exceptions import RayError

        of_key: dict[str, list[Step]] = {}
        for step in steps:
            if step.resources.runtime_env:
                of_key.setdefault(json.dumps(self.of(step.resources), sort_keys=True, default=str), []).append(step)
        refs = {}
        for same in of_key.values():
            options = {"num_cpus": 0, "max_retries": 0, "name": "marin-exec environment"}
            environment = self.of(same[0].resources)
            refs[ray.remote(_is_built).options(**options, runtime_env=environment).remote()] = same
        deadline = time.monotonic() + seconds
        problems, waiting = [], list(refs)
        while waiting and (left := deadline - time.monotonic()) > 0:
            ready, waiting = ray.wait(waiting, num_returns=1, timeout=left)
            for ref in ready:
                try:
                    ray.get(ref)
                except lost_by_cluster():
                    continue  # that says nothing of the environment
                except RayError as error:
                    problems.append(_problem(refs[ref], error))
        for ref in waiting:
            ray.cancel(ref, force=True)
        return problems


def check_paths(runtime_env: Mapping[str, Any]) -> None:
    """Raises ConfigError for a local path in an environment that does not exist."""
    named = {
        "working_dir": [runtime_env.get("working_dir")],
        "py_modules": list(runtime_env.get("py_modules", ())),
        **{key: [runtime_env.get(key)] for key in ("pip", "uv", "conda") if _is_file(runtime_env.get(key))},
    }
    for key, values in named.items():
        for value in values:
            if isinstance(value, str) and "://" not in value and not os.path.exists(value):
                raise ConfigError(
                    f"runtime_env {key}: {value!r} does not exist here; give a path that does, or a URI that the cluster can read"
                )


def _is_file(value: Any) -> bool:
    """Whether pip=, uv= or conda= names a file, and not packages or an environment that is there already."""
    return isinstance(value, str) and value.endswith((".txt", ".yml", ".yaml", ".toml"))


def _uploaded(runtime_env: dict[str, Any]) -> dict[str, Any]:
    """Returns an environment with local folders replaced by what was copied to the cluster.

    Ray does that by itself for the environment of a whole job only; these are the functions that it does it with.
    """
    from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
    from ray._private.runtime_env.working_dir import upload_working_dir_if_needed
    from ray._private.worker import global_worker

    assert global_worker.node is not None
    scratch = global_worker.node.get_runtime_env_dir_path()
    uploaded = upload_py_modules_if_needed(dict(runtime_env), include_gitignore=True, scratch_dir=scratch)
    uploaded = upload_working_dir_if_needed(uploaded, include_gitignore=True, scratch_dir=scratch)
    uploaded.pop("excludes", None)  # Ray has no more use for it
    return uploaded


def _is_built() -> bool:
    """Runs in a Ray worker: where this runs, the environment is there."""
    return True


def _problem(steps: Sequence[Step], error: Exception) -> str:
    names = some_of([step.name for step in steps], MOST_NAMED)
    said = [line.strip() for line in redact(COLOUR.sub("", str(error))).splitlines() if line.strip()]
    text = " ".join(said[-LAST_LINES:])  # above them is Ray's own traceback
    return (
        f"the runtime_env ({', '.join(steps[0].resources.runtime_env)}) of {names} cannot be built: "
        f"{text[-LONGEST_ERROR:]}. Correct it, or build it on the machines beforehand"
    )
