"""What the engine itself costs: `make bench-engine`. One JSON line a figure; exit 1 if a bar does not hold.

Figures of time are the best of several, because other programs of the machine only ever make them larger. The cost of a
cold step is given beside a floor measured in the same run: three synced writes and a synced directory, without which no
commit survives a power cut.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marin_exec import InputPath, Out, Step, kind
from marin_exec.plan import Plan, make_plan
from marin_exec.provenance import RunContext
from marin_exec.runners.local import LocalBackend
from marin_exec.runners.scheduler import Scheduler
from marin_exec.store import Store

HEAVY = ("ray", "jax", "fsspec", "pyarrow", "numpy", "rich", "draccus")


@dataclass(frozen=True)
class Config:
    number: int
    parents: tuple[InputPath, ...] = ()


@kind("bench/no-op", version=1)
def no_op(config: Config, out: Out) -> int:
    return config.number


def diamond(layers: int = 20, width: int = 10, parents: int = 3) -> list[Step]:
    """Returns the last layer of a layered diamond, in which the number of paths grows with each layer."""
    layer: list[Step] = []
    for depth in range(layers):
        above = layer
        layer = [
            Step(
                f"layer{depth}/{n}",
                no_op,
                Config(depth * width + n, tuple(above[(n + k) % width] for k in range(parents)) if above else ()),
            )
            for n in range(width)
        ]
    return layer


def chain_and_wide(num_steps: int) -> list[Step]:
    """Returns the ends of a graph of which one half is a chain, and the other all stands on one step."""
    first = Step("first", no_op, Config(0))
    chain = first
    for n in range(1, num_steps // 2):
        chain = Step(f"chain/{n}", no_op, Config(n, (chain,)))
    wide = [Step(f"wide/{n}", no_op, Config(n, (first,))) for n in range(num_steps // 2, num_steps)]
    return [chain, *wide]


def run_all(steps: list[Step], store: Store) -> float:
    """Runs steps on the local backend; returns seconds from the plan on."""
    plan = make_plan(steps, store)
    context = RunContext(run_id="bench", experiment="bench", provenance={})
    started = time.perf_counter()
    statuses = Scheduler(plan=plan, store=store, backend=LocalBackend(), context=context).run()
    seconds = time.perf_counter() - started
    assert all(status.state == "done" for status in statuses.values())
    return seconds


def best_of(tries: int, measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(tries))


def seconds_of(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def floor_ms(folder: Path, tries: int = 50) -> float:
    """Returns what three files written, synced and linked to their names cost, and their directory synced once, in ms."""

    def three(n: int) -> None:
        for part in range(3):
            temporary, final = folder / f"t{n}-{part}", folder / f"f{n}-{part}"
            with open(temporary, "wb") as file:
                file.write(b"x" * 1000)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, final)
            os.unlink(temporary)
        os.fsync(directory)

    folder.mkdir()
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return 1000 * seconds_of(lambda: [three(n) for n in range(tries)]) / tries
    finally:
        os.close(directory)


def fill(steps: list[Step], store: Store) -> None:
    """Brings a store to where all steps are done; without syncing, which 10,000 times takes minutes on a slow disk."""
    sync, os.fsync = os.fsync, lambda fd: None
    try:
        run_all(steps, store)
    finally:
        os.fsync = sync


def start_seconds(*command: str) -> float:
    def once() -> float:
        return seconds_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))

    once()  # writes bytecode
    return best_of(5, once)


def heavy_modules(statement: str) -> list[str]:
    """Returns which heavy modules a statement imports, in a process of its own."""
    code = f"{statement}\nimport sys\nprint([each for each in {HEAVY!r} if each in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1].replace("'", '"'))


def measure_steps(report: Callable[..., None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        floor = floor_ms(Path(folder, "floor"))
        report("synced writes of one commit alone (floor)", floor, "ms", None)
        num_steps = 200
        number = iter(range(10))
        cold = best_of(3, lambda: run_all(diamond(), Store.open(f"{folder}/cold-{next(number)}")))
        cold_ms = 1000 * cold / num_steps
        report("cold no-op step, local backend, 200-step diamond", cold_ms, "ms/step", 5 + floor)
        report("cold no-op step over the floor", cold_ms - floor, "ms/step", 5)
        store = Store.open(f"{folder}/cold-0")
        plan_ms = 1000 * best_of(5, lambda: seconds_of(lambda: make_plan(diamond(), store)))
        report("warm plan of the 200-step diamond (20 x 10, 3 parents)", plan_ms, "ms", 50)
        made: Plan = make_plan(diamond(), store)
        assert len(made.steps) == num_steps and not made.to_run
        per_step = [cost_of(Store.open(f"{folder}/many-{n}"), n) for n in (100, 1_000)]
        report("cost of a step among 1,000 over that among 100", per_step[1] / per_step[0], "ratio", 1.5)


def cost_of(store: Store, num_steps: int) -> float:
    """Returns seconds a step of a cold run of so many, without the disk's part."""
    steps = chain_and_wide(num_steps)
    return best_of(1, lambda: seconds_of(lambda: fill(steps, store))) / num_steps


def main() -> None:
    figures: list[bool] = []

    def report(figure: str, value: float, unit: str, bar: float | None) -> None:
        holds = bar is None or value <= bar
        figures.append(holds)
        line = {"figure": figure, "value": round(value, 3), "unit": unit, "bar": bar and round(bar, 3), "holds": holds}
        print(json.dumps(line), flush=True)

    program = str(Path(sys.executable).parent / "marin-exec")
    bare = start_seconds(sys.executable, "-c", "pass")
    report("python -c pass (floor)", bare, "s", None)
    report("marin-exec --help", start_seconds(program, "--help"), "s", 0.3)
    report("python -c 'import marin_exec'", start_seconds(sys.executable, "-c", "import marin_exec"), "s", 0.3)
    for statement in (
        "import marin_exec",
        "import marin_exec.cli; marin_exec.cli.cli(['--help'], standalone_mode=False)",
    ):
        report(f"heavy modules that {statement!r} imports", len(heavy_modules(statement)), "modules", 0)
    measure_steps(report)
    sys.exit(not all(figures))


if __name__ == "__main__":
    main()
