"""The first experiment of the docs: two steps, one of them made from the other."""

from dataclasses import dataclass
from pathlib import Path

from marin_exec import InputPath, Out, Step, kind, main


@dataclass(frozen=True)
class GreetConfig:
    names: tuple[str, ...]


@dataclass(frozen=True)
class CountConfig:
    greetings: InputPath


@kind("hello/greet")
def greet(config: GreetConfig, out: Out) -> None:
    Path(out.file("greetings.txt")).write_text("".join(f"Hello, {name}!\n" for name in config.names))


@kind("hello/count")
def count(config: CountConfig, out: Out) -> dict[str, int]:
    return {"greetings": len(Path(config.greetings, "greetings.txt").read_text().splitlines())}


def pipeline() -> list[Step]:
    greetings = Step("hello/greetings", greet, GreetConfig(names=("Ada", "Grace")))
    return [Step("hello/count", count, CountConfig(greetings=greetings))]


if __name__ == "__main__":
    main(pipeline)
