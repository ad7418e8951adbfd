"""What the fault campaign runs: five steps with shards, milestones and a dependant of one; or a layered diamond of no-ops.

Each body notes in a file that it began, with the process and the moment, so that executions can be counted.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from marin_exec import InputPath, Out, ShardOut, Step, kind, main, runtime

MOMENTS: list[Callable[[], None]] = []
"""Called before, in the middle of and after each write of data; the campaign kills the process there."""
TEXTS = {
    "hamlet": "to be or not to be\n" * 40,
    "tempest": "we are such stuff\n" * 40,
    "lear": "nothing will come\n" * 40,
}
CHECKPOINTS = 2


@dataclass(frozen=True)
class Params:
    trace: str
    """File of what began."""
    seconds: float = 0.0
    """How long each write takes, so that there is something to be killed in."""
    layers: int = 0
    """0: the five steps; else so many layers of 10 no-ops with 3 parents each."""


def moment() -> None:
    for each in MOMENTS:
        each()


def began(trace: str, name: str) -> None:
    with open(trace, "a") as file:
        file.write(f"{name} {os.getpid()} {time.monotonic()}\n")


def write(path: str, text: str, seconds: float) -> None:
    """Writes a file in two halves."""
    from fsspec.core import url_to_fs

    data = text.encode()
    filesystem, inside = url_to_fs(path, use_listings_cache=False)
    moment()
    with filesystem.open(inside, "wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        moment()
        time.sleep(seconds)
        file.write(data[len(data) // 2 :])
    moment()


def read(path: str) -> str:
    from fsspec.core import url_to_fs

    filesystem, inside = url_to_fs(path, use_listings_cache=False)
    return filesystem.cat_file(inside).decode()


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    seconds: Annotated[float, runtime]
    trace: Annotated[str, runtime]


@dataclass(frozen=True, kw_only=True)
class ShardsConfig:
    source: InputPath
    seconds: Annotated[float, runtime]
    trace: Annotated[str, runtime]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    data: InputPath
    seconds: Annotated[float, runtime]
    trace: Annotated[str, runtime]


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    checkpoint: InputPath
    trace: Annotated[str, runtime]


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    trained: InputPath
    evaluated: InputPath
    seconds: Annotated[float, runtime]
    trace: Annotated[str, runtime]


@dataclass(frozen=True)
class Item:
    path: str
    seconds: float
    trace: str


@kind("faults/source", version=1)
def source(config: SourceConfig, out: Out) -> int:
    began(config.trace, "source")
    for name, text in TEXTS.items():
        write(out.file(f"{name}.txt"), text, config.seconds)
    return len(TEXTS)


def shout(item: Item, shard: ShardOut) -> int:
    began(item.trace, f"shard-{shard.name}")
    text = read(item.path).upper()
    write(shard.file(f"{shard.name}.txt"), text, item.seconds)
    return len(text)


@kind("faults/shards", version=1)
def shards(config: ShardsConfig, out: Out) -> dict[str, int]:
    began(config.trace, "shards")
    items = {name: Item(f"{config.source}/{name}.txt", config.seconds, config.trace) for name in TEXTS}
    return out.map_shards(shout, items, cpus=0.1)


@kind("faults/train", version=1)
def train(config: TrainConfig, out: Out) -> int:
    began(config.trace, "train")
    words = " ".join(read(f"{config.data}/{name}.txt") for name in TEXTS)
    for step in range(len(out.milestones("checkpoints/")) + 1, CHECKPOINTS + 1):
        write(out.file(f"checkpoints/step-{step}/weights.txt"), words[: step * 100], config.seconds)
        out.progress(f"step {step}")
        out.publish(f"checkpoints/step-{step}", {"step": step})
    write(out.file("model.txt"), words, config.seconds)
    return len(words)


@kind("faults/evaluate", version=1)
def evaluate(config: EvaluateConfig, out: Out) -> int:
    began(config.trace, "evaluate")
    return len(read(f"{config.checkpoint}/weights.txt"))


@kind("faults/report", version=1)
def report(config: ReportConfig, out: Out) -> None:
    began(config.trace, "report")
    write(out.file("report.txt"), read(f"{config.trained}/model.txt"), config.seconds)


@dataclass(frozen=True, kw_only=True)
class NoOpConfig:
    number: int
    parents: tuple[InputPath, ...]
    trace: Annotated[str, runtime]


@kind("faults/no-op", version=1)
def no_op(config: NoOpConfig, out: Out) -> int:
    began(config.trace, out.step_name)
    return config.number


def pipeline(params: Params) -> list[Step]:
    return diamond(params.layers, params.trace) if params.layers else five(params.seconds, params.trace)


def five(seconds: float, trace: str) -> list[Step]:
    base = Step("source", source, SourceConfig(seconds=seconds, trace=trace))
    data = Step("shards", shards, ShardsConfig(source=base, seconds=seconds, trace=trace))
    trained = Step("train", train, TrainConfig(data=data, seconds=seconds, trace=trace))
    checkpoint = trained.milestone("checkpoints/step-1")
    evaluated = Step("evaluate", evaluate, EvaluateConfig(checkpoint=checkpoint, trace=trace))
    return [
        Step("report", report, ReportConfig(trained=trained, evaluated=evaluated, seconds=seconds, trace=trace)),
    ]


def diamond(layers: int, trace: str, width: int = 10, parents: int = 3) -> list[Step]:
    layer: list[Step] = []
    for depth in range(layers):
        above = layer
        layer = [
            Step(
                f"layer{depth}/{n}",
                no_op,
                NoOpConfig(
                    number=depth * width + n,
                    parents=tuple(above[(n + k) % width] for k in range(parents)) if above else (),
                    trace=trace,
                ),
            )
            for n in range(width)
        ]
    return layer


if __name__ == "__main__":
    main(pipeline)
