"""Runs a step function over a plain folder, without the engine: what a stage costs by itself."""

import dataclasses
import json
from pathlib import Path
from typing import Any


class DirectoryOut:
    """An `Out` of one rank that runs shards one after the other."""

    def __init__(self, path: Path):
        self.path = str(path)
        self.step_name = self.name = path.name
        self.rank, self.num_ranks, self.coordinator = 0, 1, ""

    def file(self, relative: str) -> str:
        target = Path(self.path) / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        return str(target)

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        pass

    def map_shards(self, fn: Any, items: Any, *, cpus: float = 1) -> dict[str, Any]:
        results = {name: fn(item, self) for name, item in items.items()}
        return {
            name: json.loads(json.dumps(dataclasses.asdict(each) if dataclasses.is_dataclass(each) else each))  # type: ignore[arg-type]
            for name, each in results.items()
        }

    def publish(self, name: str, result: Any = None) -> None:
        raise NotImplementedError

    def milestones(self, prefix: str = "") -> list[Any]:
        return []
