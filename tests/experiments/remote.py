"""Two steps that read and write through fsspec alone, so that they run on any kind of store."""

import os
import time
from dataclasses import dataclass

import fsspec

from marin_exec import InputPath, Out, ShardOut, Step, main

TRACE = os.environ.get("CHAIN_TRACE", "")
HOLD = os.environ.get("CHAIN_HOLD", "")
"""While there is no such file the last part is not written."""


@dataclass(frozen=True)
class Params:
    parts: int = 3


@dataclass(frozen=True)
class PartsConfig:
    parts: int


@dataclass(frozen=True)
class CountConfig:
    source: InputPath


def trace(name: str) -> None:
    if TRACE:
        with open(TRACE, "a") as file:
            file.write(f"{name} {os.getpid()}\n")


def write_part(number: int, shard: ShardOut) -> int:
    trace(f"part-{number}")
    while number == 2 and HOLD and not os.path.exists(HOLD):
        time.sleep(0.05)
    with fsspec.open(shard.file(f"parts/{number}.txt"), "w") as file:
        file.write("word " * (number + 1))
    return number + 1


def write_parts(config: PartsConfig, out: Out) -> int:
    words = out.map_shards(write_part, {f"part {number}": number for number in range(config.parts)})
    with fsspec.open(out.file("weights/step 1/x?.bin"), "wb") as file:
        file.write(bytes(range(256)))
    out.publish("weights/step 1", {"step": 1})
    return sum(words.values())


def count(config: CountConfig, out: Out) -> int:
    trace("count")
    files, root = fsspec.core.url_to_fs(f"{config.source}/parts", use_listings_cache=False)
    total = sum(len(files.cat_file(path).split()) for path in sorted(files.find(root)))
    with fsspec.open(out.file("count.txt"), "w") as file:
        file.write(f"{total}\n")
    return total


def pipeline(params: Params) -> list[Step]:
    parts = Step("words/parts", write_parts, PartsConfig(params.parts))
    return [Step("words/count", count, CountConfig(parts))]


if __name__ == "__main__":
    main(pipeline)
