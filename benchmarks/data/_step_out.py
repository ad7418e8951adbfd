"""What a step function writes to when a benchmark calls it: a plain folder, its shards one after another in this process."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from marin_exec import Milestone


class FolderOut:
    """An `Out` and `ShardOut` over a local folder, without the engine."""

    rank, num_ranks, coordinator, name = 0, 1, "", "shard"

    def __init__(self, path: str | Path, step_name: str = "benchmark"):
        self.path, self.step_name = str(path), step_name

    def file(self, relative: str) -> str:
        target = Path(self.path) / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        return str(target)

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        pass

    def map_shards(self, fn: Callable[[Any, Any], Any], items: Mapping[str, Any], *, cpus: float = 1) -> dict[str, Any]:
        return {name: _plain(fn(item, self)) for name, item in items.items()}

    def publish(self, name: str, result: Any = None) -> None:
        pass

    def milestones(self, prefix: str = "") -> list[Milestone]:
        return []


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.loads(json.dumps(value))
