"""Lets secrets slip in every way that a step has: printed, raised, reported, in a URL, on the command line, by shards and ranks."""

import dataclasses
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Annotated

from marin_exec import Out, Resources, Retry, ShardOut, Step, kind, main, runtime


@dataclass(frozen=True, kw_only=True)
class Params:
    api_key: str = ""
    """Only for the command line."""
    ranks: int = 1
    """Of two more steps; 1 leaves them out."""


@dataclass(frozen=True, kw_only=True)
class Config:
    n: int = 1
    shards: int = 0
    raises: bool = False
    key: Annotated[str, runtime] = ""


def leak() -> str:
    url = f"https://ada:{os.environ['PLANTED_PASSWORD']}@example.org/data?X-Amz-Signature=5191a7ed"
    return f"{url} with hf_pLaNtEdPlAnTeDpLaNtEd0 and --api-key pLaNtEd-option, {os.environ['OF_STEP_TOKEN']}"


def shard(item: int, out: ShardOut) -> int:
    print("shard says", leak())
    raise RuntimeError(f"shard {item}: {leak()}")


@kind("secrets/leaky", version=1)
def leaky(config: Config, out: Out) -> int:
    print(leak())
    print(leak(), file=sys.stderr)
    out.progress(f"reading {leak()}", done=1)
    if config.shards:
        out.map_shards(shard, {f"s{n}": n for n in range(config.shards)})
    if config.raises:
        try:
            raise ValueError(leak())
        except ValueError as error:
            raise ConnectionError(f"cannot reach {leak()}") from error
    return config.n


@kind("secrets/gang", version=1, gang=True)
def gang(config: Config, out: Out) -> int:
    """Every rank leaks; then rank 1 raises, or is killed."""
    print(f"rank {out.rank} says", leak(), flush=True)
    out.progress(f"rank {out.rank} reads {leak()}", done=1)
    if out.rank == 0:
        time.sleep(300)
    time.sleep(2)  # rank 0 has spoken by then
    if config.raises:
        raise RuntimeError(f"rank {out.rank}: {leak()}")
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def pipeline(params: Params) -> list[Step]:
    resources = Resources(cpus=0.5, env={"OF_STEP_TOKEN": "pLaNtEd-of-step"})
    settings = {"fine": Config(key=params.api_key), "raises": Config(n=2, raises=True), "shards": Config(n=3, shards=2)}
    steps = [Step(f"leaky/{name}", leaky, config, resources=resources) for name, config in settings.items()]
    if params.ranks > 1:
        several = dataclasses.replace(resources, ranks=params.ranks)
        ends = {"raises": Config(raises=True), "killed": Config(n=4)}
        once = Retry(infrastructure=0)
        steps += [Step(f"gang/{name}", gang, config, resources=several, retry=once) for name, config in ends.items()]
    return steps


if __name__ == "__main__":
    main(pipeline)
