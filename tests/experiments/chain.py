"""A small experiment for the engine's tests: numbers -> (squares, cubes) -> total, with knobs and a trace of what ran.

Every body appends a line to the file named by CHAIN_TRACE, so that a test can count real executions.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from marin_exec import InputPath, Out, ShardOut, Step, kind, main, runtime


@dataclass(frozen=True)
class Params:
    count: int = 4
    power: int = 3
    shard_seconds: float = 0.0
    workers: int = 1
    fail: str = ""


def ran(what: str) -> None:
    with open(os.environ["CHAIN_TRACE"], "a") as trace:
        trace.write(f"{what} {os.getpid()}\n")


@dataclass(frozen=True, kw_only=True)
class NumbersConfig:
    count: int
    shard_seconds: Annotated[float, runtime] = 0.0


@dataclass(frozen=True, kw_only=True)
class PowerConfig:
    numbers: InputPath
    power: int
    workers: Annotated[int, runtime] = 1
    fail: Annotated[str, runtime] = ""


@dataclass(frozen=True, kw_only=True)
class TotalConfig:
    parts: tuple[InputPath, ...]


@dataclass(frozen=True)
class Counted:
    rows: int
    total: int


@dataclass(frozen=True)
class ShardItem:
    number: int
    seconds: float


def write_shard(item: ShardItem, shard: ShardOut) -> dict[str, int]:
    time.sleep(item.seconds)
    ran(f"shard-{item.number}")
    Path(shard.file(f"part-{item.number:05d}.json")).write_text(json.dumps(item.number))
    return {"number": item.number}


@kind("chain/numbers", version=1)
def numbers(config: NumbersConfig, out: Out) -> Counted:
    ran("numbers")
    items = {f"part-{n:05d}": ShardItem(n, config.shard_seconds) for n in range(config.count)}
    results = out.map_shards(write_shard, items)
    return Counted(len(results), sum(each["number"] for each in results.values()))


@kind("chain/power", version=1)
def power(config: PowerConfig, out: Out) -> Counted:
    ran(f"power-{config.power}")
    if config.fail == str(config.power):
        raise ValueError(f"asked to fail at power {config.power}")
    values = [json.loads(path.read_text()) ** config.power for path in sorted(Path(config.numbers).glob("*.json"))]
    Path(out.file("values.json")).write_text(json.dumps(values))
    return Counted(len(values), sum(values))


@kind("chain/total", version=1)
def total(config: TotalConfig, out: Out) -> Counted:
    ran("total")
    values = [sum(json.loads(Path(part, "values.json").read_text())) for part in config.parts]
    Path(out.file("total.txt")).write_text(str(sum(values)))
    return Counted(len(values), sum(values))


def pipeline(params: Params) -> list[Step]:
    base = Step("numbers", numbers, NumbersConfig(count=params.count, shard_seconds=params.shard_seconds))
    squares = Step("power/squares", power, PowerConfig(numbers=base, power=2, workers=params.workers, fail=params.fail))
    cubes = Step(
        "power/cubes", power, PowerConfig(numbers=base, power=params.power, workers=params.workers, fail=params.fail)
    )
    return [Step("total", total, TotalConfig(parts=(squares, cubes)))]


if __name__ == "__main__":
    main(pipeline)
