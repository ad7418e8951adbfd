"""Steps that must not run at the same time, for the engine's tests; each notes that it began."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from marin_exec import Out, Step, kind, main, runtime


@dataclass(frozen=True)
class Params:
    names: str = "a"
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AskConfig:
    name: str
    seconds: Annotated[float, runtime]


@kind("limited/ask", version=1)
def ask(config: AskConfig, out: Out) -> str:
    trace = Path(os.environ["CHAIN_TRACE"])
    with open(trace, "a") as file:
        file.write(f"{config.name} {os.getpid()}\n")
    deadline = time.monotonic() + config.seconds
    while time.monotonic() < deadline:
        time.sleep(0.02)
    return config.name


def pipeline(params: Params) -> list[Step]:
    return [
        Step(f"ask/{name}", ask, AskConfig(name=name, seconds=params.seconds), limits={"api": 1})
        for name in params.names.split(",")
    ]


if __name__ == "__main__":
    main(pipeline)
