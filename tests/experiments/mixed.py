"""Steps that end in every way on a cluster, side by side in one run; and one that goes on until it is released."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from marin_exec import InputPath, Out, Resources, Retry, ShardOut, Step, main, runtime

FOLDER = Path(os.environ.get("CHAIN_TRACE", "trace")).parent
WAIT_SECONDS = 60


@dataclass(frozen=True)
class Params:
    held: bool = False


@dataclass(frozen=True)
class Config:
    how: str
    folder: Annotated[str, runtime] = str(FOLDER)


@dataclass(frozen=True)
class EvaluateConfig:
    checkpoint: InputPath
    folder: Annotated[str, runtime] = str(FOLDER)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.02)


def square(item: int, shard: ShardOut) -> int:
    time.sleep(0.2)
    return item * item


def raising(item: int, shard: ShardOut) -> int:
    if item == 2:
        print("\x1b[31mthe shard's last words\x1b[0m", flush=True)
        raise ValueError("bad shard")
    return item


def dying_once(item: str, shard: ShardOut) -> int:
    if not os.path.exists(item):
        Path(item).write_text("here")
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def squares(config: Config, out: Out) -> int:
    # More CPUs than the machine has: the cluster that a run starts gives what there is.
    return sum(out.map_shards(square, {f"s{n}": n for n in range(4)}, cpus=1000).values())


def shard_raises(config: Config, out: Out) -> Any:
    return out.map_shards(raising, {f"part-{n}": n for n in range(4)})


def shard_dies_once(config: Config, out: Out) -> int:
    return sum(out.map_shards(dying_once, {"only": f"{config.folder}/died"}).values())


def prints_megabytes(config: Config, out: Out) -> None:
    for _ in range(50_000):
        print("x" * 100)
    print("the end of five megabytes", file=sys.stderr)
    raise ValueError("after printing")


class HoldsALock(Exception):
    def __init__(self, message: str):
        super().__init__(message)
        self.lock = threading.Lock()


def unpicklable(config: Config, out: Out) -> None:
    print("the last words of the worker", file=sys.stderr, flush=True)
    raise HoldsALock("held something that cannot travel")


def killed_once(config: Config, out: Out) -> int:
    marker = Path(config.folder, "killed")
    if not marker.exists():
        marker.write_text("here")
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def exits(config: Config, out: Out) -> None:
    os._exit(3)


def interrupts(config: Config, out: Out) -> None:
    raise KeyboardInterrupt


def trains(config: Config, out: Out) -> int:
    Path(out.file("step-1/weights")).write_text("w")
    out.publish("step-1")
    wait_for(Path(config.folder, "evaluated"))
    return 1


def evaluates(config: EvaluateConfig, out: Out) -> str:
    Path(config.folder, "evaluated").write_text("")
    return Path(config.checkpoint, "weights").read_text()


def held(config: Config, out: Out) -> int:
    Path(config.folder, f"held-{os.getpid()}").write_text("")
    wait_for(Path(config.folder, "released"))
    return 1


def pipeline(params: Params) -> list[Step]:
    if params.held:
        return [Step("held", held, Config("held"))]
    bodies: tuple[Callable[..., Any], ...] = (
        squares,
        shard_raises,
        shard_dies_once,
        prints_megabytes,
        unpicklable,
        killed_once,
        exits,
        interrupts,
    )
    each = [Step(fn.__name__, fn, Config(fn.__name__), retry=Retry(infrastructure=1)) for fn in bodies]
    trained = Step("trains", trains, Config("trains"))
    again = Step("squares_again", squares, Config("again"), resources=Resources(cpus=1000))
    gpus = Step("wants_gpus", squares, Config("gpus"), resources=Resources(gpus=1000))
    return [*each, again, gpus, trained, Step("evaluates", evaluates, EvaluateConfig(trained.milestone("step-1")))]


if __name__ == "__main__":
    main(pipeline)
