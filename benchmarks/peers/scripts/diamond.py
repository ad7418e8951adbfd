"""The graph of dag.py as an experiment of this engine: `marin-exec run diamond.py`."""

from dataclasses import dataclass
from pathlib import Path

from dag import LAYERS, WIDTH, body_ran, parents, steps, value

from marin_exec import InputPath, Out, Step, kind


@dataclass(frozen=True)
class Config:
    layer: int
    number: int
    parents: tuple[InputPath, ...]


@kind("bench/diamond", version=1)
def step(config: Config, out: Out) -> None:
    body_ran()
    made = value(int(Path(each, "value.txt").read_text()) for each in config.parents)
    Path(out.file("value.txt")).write_text(str(made))


def pipeline() -> list[Step]:
    made: dict[tuple[int, int], Step] = {}
    for each in steps():
        config = Config(*each, tuple(made[parent] for parent in parents(*each)))
        made[each] = Step(f"layer{each[0]}/{each[1]}", step, config)
    return [made[LAYERS - 1, number] for number in range(WIDTH)]
