"""The first experiment of the docs: two steps, one of them made from the other."""

from dataclasses import dataclass

from marin_exec import InputPath, Out, Step, kind, main, open_file


@dataclass(frozen=True)
class GreetConfig:
    names: tuple[str, ...]


@dataclass(frozen=True)
class CountConfig:
    greetings: InputPath


@kind("hello/greet")
def greet(config: GreetConfig, out: Out) -> None:
    with open_file(out.file("greetings.txt"), "w") as file:
        file.writelines(f"Hello, {name}!\n" for name in config.names)


@kind("hello/count")
def count(config: CountConfig, out: Out) -> dict[str, int]:
    with open_file(f"{config.greetings}/greetings.txt", "r") as file:
        return {"greetings": len(list(file))}


def pipeline() -> list[Step]:
    greetings = Step("hello/greetings", greet, GreetConfig(names=("Ada", "Grace")))
    return [Step("hello/count", count, CountConfig(greetings=greetings))]


if __name__ == "__main__":
    main(pipeline)
