"""Runs the graph in one engine, in processes of its own: start-up alone, from an empty state, and with everything done.

A run counts only if it proves itself: every body ran once when the state was empty, none when everything was done, and
both times the last layer has the right values. Times are the best of several, because other programs of the machine
only ever make them larger; a process that takes too long is killed with its process group.
"""

import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bounded import Ended, run_bounded
from benchmarks.peers.engines import SCRIPTS, Engine, environment_of
from benchmarks.peers.scripts.dag import expected, steps

SLOW_SECONDS = 20
"""What takes longer is not tried again."""


class Unproved(Exception):
    """A run executed other bodies than it should, or ended in other values."""


@dataclass(frozen=True)
class Run:
    """One run of the graph."""

    ended: Ended
    bodies: int
    values: list[int] | None
    """Of the last layer, as printed."""


@dataclass(frozen=True)
class Row:
    """What one engine took for the graph. Milliseconds are a step's, over start-up."""

    engine: str
    checks: str
    rests_on: str
    num_steps: int
    start_seconds: float
    cold_seconds: float
    warm_seconds: float
    cold_ms: float
    warm_ms: float
    cold_cpu_ms: float
    warm_cpu_ms: float
    peak_mb: float
    files: int
    """Left in the state folder by a cold run."""


def measure(engine: Engine, tries: int) -> Row:
    """Returns an engine's row.

    Raises:
        Unproved: a run did not do what it should.
        Failed: a process failed, or took too long.
    """
    num_steps = len(steps())
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        run = _runner(engine, Path(folder))
        run("start", "--start-only")  # writes bytecode
        start = _best(tries, lambda: run("start", "--start-only"), bodies=None)
        cold = _best(min(tries, 3), lambda: run("cold"), bodies=num_steps)
        files = sum(len(names) for _, _, names in os.walk(Path(folder, "state")))
        warm = _best(tries, lambda: run("warm"), bodies=0)
    return Row(
        engine=engine.name,
        checks=engine.checks,
        rests_on=engine.rests_on,
        num_steps=num_steps,
        start_seconds=round(start.seconds, 3),
        cold_seconds=round(cold.seconds, 3),
        warm_seconds=round(warm.seconds, 3),
        cold_ms=_ms_a_step(cold.seconds - start.seconds, num_steps),
        warm_ms=_ms_a_step(warm.seconds - start.seconds, num_steps),
        cold_cpu_ms=_ms_a_step(cold.cpu_seconds - start.cpu_seconds, num_steps),
        warm_cpu_ms=_ms_a_step(warm.cpu_seconds - start.cpu_seconds, num_steps),
        peak_mb=round(max(cold.peak_mb, warm.peak_mb)),
        files=files,
    )


def _ms_a_step(seconds: float, num_steps: int) -> float:
    """Never below 0: what a run takes less than start-up alone is noise."""
    return round(max(0.0, seconds) * 1000 / num_steps, 3)


def _best(tries: int, run: Callable[[], Run], bodies: int | None) -> Ended:
    """Returns the least that several runs took, all of them proved.

    Args:
        bodies: how many must have been executed; None for start-up alone.
    """
    runs: list[Run] = []
    while len(runs) < tries and not (runs and runs[-1].ended.seconds > SLOW_SECONDS):
        runs.append(run())
        if bodies is None:
            continue
        if runs[-1].bodies != bodies:
            raise Unproved(f"{runs[-1].bodies} bodies ran, and {bodies} should have")
        if runs[-1].values != expected():
            raise Unproved(f"ended in {runs[-1].values}, and should have in {expected()}")
    fastest = min((each.ended for each in runs), key=lambda each: each.seconds)
    return dataclasses.replace(fastest, cpu_seconds=min(each.ended.cpu_seconds for each in runs))


def _runner(engine: Engine, folder: Path) -> Callable[..., Run]:
    """Returns a function that runs the engine's script once; "cold" empties its state first."""
    python = str(environment_of(engine) / "bin/python") if engine.requirements else sys.executable
    state, count = folder / "state", folder / "count"
    environment = {**os.environ, **engine.environment, "BENCH_STATE": str(state), "BENCH_COUNT": str(count)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if engine.requirements:
        environment.pop("PYTHONPATH", None)

    def run(how: str, *arguments: str) -> Run:
        if how == "cold":
            state.rename(folder / f"state-{time.monotonic_ns()}")
        state.mkdir(exist_ok=True)
        count.write_bytes(b"")
        ended = run_bounded([python, SCRIPTS / engine.script, *arguments], environment, folder)
        lines = [line.removeprefix("values ") for line in ended.printed.splitlines() if line.startswith("values ")]
        return Run(ended, count.stat().st_size, json.loads(lines[-1]) if lines else None)

    return run
