"""What a step needs to run, and how often it is tried. Never part of identity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marin_exec.errors import ConfigError

RUNTIME_ENV_KEYS = (
    *("working_dir", "excludes", "py_modules", "pip", "uv", "conda"),
    *("py_executable", "container", "image_uri", "config"),
)
"""Of https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference, those that a step may set."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one attempt of a step needs from the cluster. Never part of identity.

    Raises:
        ConfigError: `ranks` is not a whole number from 1 up, or `runtime_env` has a key that is not allowed.
    """

    cpus: float = 1
    """On a cluster that the run starts on its own machine, at most what that has."""
    gpus: float = 0
    memory_bytes: int | None = None
    custom: Mapping[str, float] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the process that runs the step."""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """What else the process needs, as Ray takes it: `RUNTIME_ENV_KEYS`. Folders and files of this machine are copied to the
    cluster. Tried before the run starts anything."""
    ranks: int = 1
    """Processes that run the step's function at the same time, each with the resources above; the attempt is one, and
    ends when any of them fails. More than one only for kinds declared with `gang=True`."""

    def __post_init__(self) -> None:
        if type(self.ranks) is not int or self.ranks < 1:
            raise ConfigError(f"Resources: ranks is {self.ranks!r}; a whole number from 1 up is needed")
        for key in self.runtime_env:
            if key not in RUNTIME_ENV_KEYS:
                hint = "give variables as Resources(env={...})" if key == "env_vars" else "leave it out"
                raise ConfigError(
                    f"Resources: runtime_env has {key!r}; allowed are {', '.join(RUNTIME_ENV_KEYS)}. {hint[0].upper()}{hint[1:]}"
                )


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often an attempt is tried again within one run. Never part of identity."""

    infrastructure: int = 2
    """After a worker or node died, or a task ran out of memory."""
    exceptions: int = 0
    """After the step function raised."""
