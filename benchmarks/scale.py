"""What commands take on a store of 10,000 steps, and beside an output of 100,000 files: part of `make bench-engine`.

One JSON line a figure, seconds and megabytes of whole commands, start-up included; exit 1 if a bar does not hold.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bounded import Failed, run_bounded
from benchmarks.engine import chain_and_wide, fill
from marin_exec import InputPath, Out, Step, kind
from marin_exec.store import Store

__all__ = ["Store", "chain_and_wide", "fill", "users_of_many_files"]  # for the processes and experiments made here

ROOT = Path(__file__).parents[1]
PROGRAM = Path(sys.executable).with_name("marin-exec")
MOST_PLAN_SECONDS = 5
MOST_SECONDS = 10
"""For commands that read every record and print a line for each."""
MOST_MB = 500
MOST_FILL_SECONDS = 1_200
"""To make a store; nothing is measured meanwhile."""


@dataclass(frozen=True)
class ManyConfig:
    num_files: int


@dataclass(frozen=True)
class UseConfig:
    files: InputPath
    number: int


@kind("bench/many-files", version=1)
def many_files(config: ManyConfig, out: Out) -> int:
    for number in range(config.num_files):
        Path(out.file(f"part-{number // 1000:04d}/{number:06d}.txt")).write_text(str(number))
    return config.num_files


@kind("bench/use-files", version=1)
def use_files(config: UseConfig, out: Out) -> int:
    return len(os.listdir(config.files))


def users_of_many_files(num_files: int, num_users: int = 50) -> list[Step]:
    """Returns steps that each read the output of one step, which has so many files."""
    files = Step("files", many_files, ManyConfig(num_files))
    return [Step(f"users/{n}", use_files, UseConfig(files, n)) for n in range(num_users)]


class Commands:
    """Runs commands on one store and reports what they took."""

    def __init__(self, store: Path):
        self._store = store
        self.held = True

    def measure(self, what: str, arguments: Sequence[str | Path], most_seconds: float | None, tries: int = 2) -> None:
        command = [PROGRAM, *arguments, "--prefix", self._store]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        try:
            ended = [run_bounded(command, environment, ROOT) for _ in range(tries)]
        except Failed as error:
            print(f"{what}: {error}", file=sys.stderr)
            self.held = False
            return
        self._report(what, min(each.seconds for each in ended), "s", most_seconds)
        self._report(f"{what}: CPU", min(each.cpu_seconds for each in ended), "s", None)
        self._report(f"{what}: memory", max(each.peak_mb for each in ended), "MB", MOST_MB)

    def _report(self, figure: str, value: float, unit: str, bar: float | None) -> None:
        holds = bar is None or value <= bar
        self.held &= holds
        line = {"figure": figure, "value": round(value, 3), "unit": unit, "bar": bar, "holds": holds}
        print(json.dumps(line), flush=True)


def experiment(folder: Path, steps: str) -> Path:
    """Writes an experiment whose steps are what an expression over this module gives."""
    path = folder / f"{steps.partition('(')[0]}.py"
    path.write_text(f"from benchmarks.scale import *\n\ndef pipeline():\n    return {steps}\n")
    return path


def measure_many_steps(folder: Path, num_steps: int) -> bool:
    """Reports the commands on a store of so many steps, half a chain, half wide; says whether all bars hold."""
    store = folder / "steps"
    code = f"from benchmarks.scale import *; fill(chain_and_wide({num_steps}), Store.open({str(store)!r}))"
    run_bounded([sys.executable, "-c", code], folder=ROOT, most_seconds=MOST_FILL_SECONDS)
    file, commands, named = experiment(folder, f"chain_and_wide({num_steps})"), Commands(store), f"{num_steps:,} steps"
    last = f"chain/{num_steps // 2 - 1}"
    commands.measure(f"{named}: run, nothing to do", ["run", file], MOST_PLAN_SECONDS)
    commands.measure(f"{named}: plan", ["plan", file], MOST_PLAN_SECONDS)
    commands.measure(f"{named}: status", ["status", file], MOST_SECONDS)
    commands.measure(f"{named}: ls", ["ls"], MOST_SECONDS)
    commands.measure(f"{named}: lineage of the chain's end", ["lineage", last], MOST_SECONDS)
    commands.measure(f"{named}: lineage down from the first", ["lineage", "first", "--down"], MOST_SECONDS)
    commands.measure(f"{named}: gc, dry run", ["gc"], MOST_SECONDS)
    return commands.held


def measure_many_files(folder: Path, num_files: int) -> bool:
    """Reports the commands beside an output of so many files; says whether all bars hold."""
    store = folder / "files"
    file, commands, named = (
        experiment(folder, f"users_of_many_files({num_files})"),
        Commands(store),
        f"{num_files:,} files",
    )
    other = experiment(folder, "chain_and_wide(100)")
    commands.measure(f"{named}: the run that makes them", ["run", file, "--backend", "local"], None, tries=1)
    commands.measure(f"{named}: run, nothing to do", ["run", file], MOST_PLAN_SECONDS)
    commands.measure(f"{named}: plan of another experiment of 100 steps", ["plan", other], 1)
    commands.measure(f"{named}: lineage of what reads them", ["lineage", "users/3"], MOST_SECONDS)
    commands.measure(f"{named}: show", ["show", "files"], MOST_SECONDS)
    commands.measure(f"{named}: gc, dry run", ["gc"], MOST_SECONDS)
    return commands.held


def main() -> None:
    parser = argparse.ArgumentParser(description="What commands take on a large store.")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
        held = [measure_many_steps(Path(folder), options.steps), measure_many_files(Path(folder), options.files)]
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
