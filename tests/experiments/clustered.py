"""Steps for tests on a cluster of several nodes: they say where they run, and end in the way that is asked for."""

import os
import signal
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from marin_exec import Out, Resources, Retry, ShardOut, Step, main, runtime

A_MOMENT = 0.5
"""Seconds, in which a task's first word, where it runs, reaches its driver."""
FOLDER = Path(os.environ.get("CHAIN_TRACE", "trace")).parent


@dataclass(frozen=True)
class Params:
    how: str = "spread"
    shards: int = 6
    shard_seconds: float = 0.5
    modules: str = ""
    """A folder with a module `only_there`, which travels as a runtime environment."""


@dataclass(frozen=True)
class Config:
    how: str
    shards: int = 0
    shard_seconds: Annotated[float, runtime] = 0.0
    folder: Annotated[str, runtime] = str(FOLDER)


@dataclass(frozen=True)
class Item:
    number: int
    seconds: float
    folder: str


def say_where(folder: str, what: str) -> None:
    """Leaves a file named by what runs and where: "what@host-pid"."""
    from ray.util import get_node_ip_address

    Path(folder, f"{what}@{get_node_ip_address()}-{os.getpid()}").write_text("")


def write_shard(item: Item, shard: ShardOut) -> int:
    say_where(item.folder, f"shard-{item.number}")
    time.sleep(item.seconds)
    Path(shard.file(f"part-{item.number}")).write_text(str(item.number))
    with open(Path(item.folder, "shards.txt"), "a") as trace:
        trace.write(f"{item.number}\n")
    return item.number


def spread(config: Config, out: Out) -> int:
    say_where(config.folder, "step")
    items = {f"s{n}": Item(n, config.shard_seconds, config.folder) for n in range(config.shards)}
    return sum(out.map_shards(write_shard, items, cpus=0.5).values())


def dies(config: Config, out: Out) -> None:
    print("the last words of a killed process", flush=True)
    time.sleep(A_MOMENT)
    os.kill(os.getpid(), signal.SIGKILL)


def dying_shard(item: Item, shard: ShardOut) -> int:
    if not Path(item.folder, "died").exists():
        Path(item.folder, "died").write_text("")
        print("the last words of a killed shard", flush=True)
        time.sleep(A_MOMENT)
        os.kill(os.getpid(), signal.SIGKILL)
    return item.number


def shard_dies(config: Config, out: Out) -> int:
    return sum(out.map_shards(dying_shard, {"only": Item(1, 0, config.folder)}).values())


def unknown_error() -> Exception:
    """Returns an exception of a class in a module that only this process has."""
    module = types.ModuleType("nobody_else_has_this")
    sys.modules[module.__name__] = module
    exec("class Strange(Exception):\n  def __reduce__(self): raise TypeError('no')\n", module.__dict__)
    return module.Strange("from a class that only the worker knows")  # type: ignore[attr-defined]


def raises_unknown(config: Config, out: Out) -> None:
    raise unknown_error()


def shard_raising_unknown(item: Item, shard: ShardOut) -> None:
    raise unknown_error()


def shard_raises_unknown(config: Config, out: Out) -> None:
    out.map_shards(shard_raising_unknown, {"only": Item(1, 0, config.folder)})


def quick(config: Config, out: Out) -> int:
    return 1


def stops_itself(config: Config, out: Out) -> None:
    """A process that answers nobody any more, as one that hangs in a driver or on a dead mount."""
    say_where(config.folder, "step")
    time.sleep(A_MOMENT)
    os.kill(os.getpid(), signal.SIGSTOP)


def uses_module(config: Config, out: Out) -> str:
    import only_there  # type: ignore[import-not-found]

    return only_there.GREETING


def pipeline(params: Params) -> list[Step]:
    once = Retry(infrastructure=1)
    match params.how:
        case "spread":
            config = Config("spread", params.shards, params.shard_seconds)
            return [Step("spread", spread, config, retry=once)]
        case "on_b":
            config = Config("spread", params.shards, params.shard_seconds)
            return [Step("spread", spread, config, retry=once, resources=Resources(cpus=0.5, custom={"b": 1}))]
        case "failures":
            fns: tuple[Any, ...] = (dies, shard_dies, raises_unknown, shard_raises_unknown)
            return [Step(fn.__name__, fn, Config(fn.__name__), retry=once) for fn in fns]
        case "tight":
            return [Step("tight", spread, Config("tight", 1, 30), retry=once, resources=Resources(custom={"tight": 1}))]
        case "stops":
            return [Step("stops", stops_itself, Config("stops"))]
        case "environments":
            well = Resources(cpus=0.1, runtime_env={"py_modules": [f"{params.modules}/only_there"]})
            return [Step("well", uses_module, Config("well"), resources=well)]
        case "bad_environment":
            bad = Resources(runtime_env={"conda": "no-such-environment"})
            first = Step("first", quick, Config("first"))
            return [Step("bad", quick, Config("bad"), resources=bad, after=(first,))]
    raise ValueError(params.how)


if __name__ == "__main__":
    main(pipeline)
