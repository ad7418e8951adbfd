"""An experiment with a helper module beside it; the test copies both to a folder outside the project."""

from dataclasses import dataclass

import helper_beside

from marin_exec import InputPath, Out, ShardOut, Step, kind, main


@dataclass(frozen=True)
class Config:
    number: int


@dataclass(frozen=True)
class NextConfig:
    first: InputPath


def shard(item: int, out: ShardOut) -> int:
    with open(out.file(f"{item}.txt"), "w") as file:
        file.write(str(helper_beside.shifted(item)))
    return helper_beside.shifted(item)


@kind("outside/first")
def first(config: Config, out: Out) -> dict[str, int]:
    return out.map_shards(shard, {f"shard-{n}": n for n in range(config.number)})


@kind("outside/second")
def second(config: NextConfig, out: Out) -> int:
    with open(f"{config.first}/1.txt") as file:
        return int(file.read()) + 1


def pipeline() -> list[Step]:
    return [Step("second", second, NextConfig(first=Step("first", first, Config(number=3))))]


if __name__ == "__main__":
    main(pipeline)
