"""An in-process `Out` over a plain directory, for tests of step functions without the engine."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from marin_exec import Milestone


def plain(value: Any) -> Any:
    """Returns what the engine would hand back: a result as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.loads(json.dumps(value))


class DirectoryOut:
    def __init__(
        self, path: Path, step_name: str = "test/step", rank: int = 0, num_ranks: int = 1, coordinator: str = ""
    ):
        self.path = str(path)
        self.step_name = step_name
        self.rank, self.num_ranks, self.coordinator = rank, num_ranks, coordinator
        self.name = "shard"
        self.messages: list[str] = []
        self._milestones: dict[str, Any] = {}

    def file(self, relative: str) -> str:
        target = Path(self.path) / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        return str(target)

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        self.messages.append(message)

    def map_shards(self, fn: Callable[..., Any], items: Mapping[str, Any], *, cpus: float = 1) -> dict[str, Any]:
        return {name: plain(fn(item, self)) for name, item in items.items()}

    def publish(self, name: str, result: Any = None) -> None:
        assert (Path(self.path) / name).exists(), f"published {name} does not exist"
        self._milestones.setdefault(name, plain(result))

    def milestones(self, prefix: str = "") -> list[Milestone]:
        chosen = [name for name in self._milestones if name.startswith(prefix)]
        chosen.sort(key=lambda name: [int(p) if p.isdigit() else p for p in name.replace("-", "/").split("/")])
        return [Milestone(name, str(Path(self.path) / name), self._milestones[name]) for name in chosen]
