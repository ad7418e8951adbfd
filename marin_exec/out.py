"""What a step function is given besides its config: the place to write, and what it can tell the engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Milestone:
    """A part of a step's output that was published while the step ran."""

    name: str
    path: str
    """Where it is: a local path, or a URL for other filesystems."""
    result: Any
    """What was passed to `publish`, as plain JSON values."""


class ShardOut(Protocol):
    """The output of one shard of `Out.map_shards`."""

    name: str

    def file(self, relative: str) -> str:
        """Returns the full path for a file of this shard and counts it as part of the shard; parents are made."""
        ...

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None: ...


class Out(Protocol):
    """The output of one attempt of a step. Only paths under `path` may be written."""

    path: str
    """This attempt's own directory: a local path for file://, a URL for other filesystems. All ranks share it."""
    step_name: str
    rank: int
    """Which of the processes that run the step this one is: 0 to `num_ranks` - 1. What rank 0 returns is the step's
    result, what the others return is left out; the output is looked at when all of them have returned."""
    num_ranks: int
    """`Resources.ranks` of the step."""
    coordinator: str
    """"host:port" on the machine of rank 0, a port that was free when the attempt began; "" if `num_ranks` is 1."""

    def file(self, relative: str) -> str:
        """Returns the full path of a file in the output; its parent directory is made."""
        ...

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        """Notes what is going on: a line in the attempt's log, and on the progress display."""
        ...

    def map_shards(
        self,
        fn: Callable[[Any, ShardOut], Any],
        items: Mapping[str, Any],
        *,
        cpus: float = 1,
    ) -> dict[str, Any]:
        """Runs `fn(item, shard)` once per named item, spread over the cluster; returns its results by name, in order of `items`.

        A shard is committed on its own when `fn` returns: a later attempt of the step takes it up instead of running it.
        The names and items must be a function of the step's identity, and `fn` a module-level function (or a picklable
        partial of one) that writes only through `shard.file(...)`. A result is a dataclass, or plain JSON values; it comes
        back as plain JSON values (dicts, lists, str, int, float, bool, None) either way. For rank 0 only.
        """
        ...

    def publish(self, name: str, result: Any = None) -> None:
        """Commits the file or directory `name` of the output as a milestone. If an earlier attempt did, the first one stands.

        For rank 0 only, once all ranks have written their part: let them meet first.
        """
        ...

    def milestones(self, prefix: str = "") -> list[Milestone]:
        """Returns what this step has published so far, earlier attempts included, ordered by name (natural order)."""
        ...
