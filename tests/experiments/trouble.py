"""Steps that go wrong in the ways that workers go wrong."""

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from marin_exec import Out, Retry, Step, main


@dataclass(frozen=True)
class Params:
    how: str = "unpicklable"


@dataclass(frozen=True)
class Config:
    how: str
    marker: str


class HoldsALock(Exception):
    def __init__(self, message: str):
        super().__init__(message)
        self.lock = threading.Lock()


def work(config: Config, out: Out) -> dict[str, int]:
    Path(out.file("half.txt")).write_text("half")
    print("the last words of the worker", file=sys.stderr, flush=True)
    if config.how == "unpicklable":
        raise HoldsALock("held something that cannot travel")
    if config.how == "killed once" and not os.path.exists(config.marker):
        Path(config.marker).write_text("here")
        os.kill(os.getpid(), signal.SIGKILL)
    if config.how == "sleeps":
        time.sleep(300)
    return {"pid_differs": 1}


def pipeline(params: Params) -> list[Step]:
    marker = os.environ["CHAIN_TRACE"] + ".marker"
    return [Step("trouble", work, Config(how=params.how, marker=marker), retry=Retry(infrastructure=1))]


if __name__ == "__main__":
    main(pipeline)
