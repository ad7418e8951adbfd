"""A step that goes on until it is stopped."""

import time
from dataclasses import dataclass
from pathlib import Path

from marin_exec import Out, Step, main


@dataclass(frozen=True)
class Config:
    seconds: float


def work(config: Config, out: Out) -> dict[str, int]:
    Path(out.file("half.txt")).write_text("half")
    time.sleep(config.seconds)
    return {"ended": 1}


def pipeline() -> list[Step]:
    return [Step("trouble", work, Config(300.0))]


if __name__ == "__main__":
    main(pipeline)
