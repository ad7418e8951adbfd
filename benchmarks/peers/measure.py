"""Runs the graph in one engine, in processes of its own: start-up alone, from an empty state, and with everything done.

A run counts only if it proves itself: every body ran once when the state was empty, none when everything was done, and
both times the last layer has the right values. Times are the best of several, because other programs of the machine
only ever make them larger; a process that takes too long is killed with its process group.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engines import SCRIPTS, Engine, environment_of
from scripts.dag import expected, steps

MOST_SECONDS = 170
SLOW_SECONDS = 20
"""What takes longer is not tried again."""


class Unproved(Exception):
    """A run failed, took too long, ran other bodies than it should, or ended in other values."""


@dataclass(frozen=True)
class Ended:
    """One process, and all that it waited for."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    bodies: int
    values: list[int] | None


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
        Unproved: a run did not do what it should; the message says which and shows the end of what it printed.
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


def _best(tries: int, run: Callable[[], Ended], bodies: int | None) -> Ended:
    """Returns the fastest of several runs, all of them proved; `bodies` is how many must run, None for start-up alone."""
    ended: list[Ended] = []
    while len(ended) < tries and not (ended and ended[-1].seconds > SLOW_SECONDS):
        ended.append(run())
        if bodies is None:
            continue
        if ended[-1].bodies != bodies:
            raise Unproved(f"{ended[-1].bodies} bodies ran, and {bodies} should have")
        if ended[-1].values != expected():
            raise Unproved(f"ended in {ended[-1].values}, and should have in {expected()}")
    fastest = min(ended, key=lambda each: each.seconds)
    return Ended(
        fastest.seconds, min(each.cpu_seconds for each in ended), fastest.peak_mb, fastest.bodies, fastest.values
    )


def _runner(engine: Engine, folder: Path) -> Callable[..., Ended]:
    """Returns a function that runs the engine's script once; "cold" empties its state first."""
    python = str(environment_of(engine) / "bin/python") if engine.requirements else sys.executable
    state, count = folder / "state", folder / "count"
    environment = {**os.environ, **engine.environment, "BENCH_STATE": str(state), "BENCH_COUNT": str(count)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if engine.requirements:
        environment.pop("PYTHONPATH", None)

    def run(how: str, *arguments: str) -> Ended:
        if how == "cold":
            state.rename(folder / f"state-{time.monotonic_ns()}")
        state.mkdir(exist_ok=True)
        count.write_bytes(b"")
        command = [python, str(SCRIPTS / engine.script), *arguments]
        ended = run_bounded(command, environment, folder)
        return Ended(*ended[:3], count.stat().st_size, ended[3])

    return run


def run_bounded(
    command: list[str], environment: dict[str, str], folder: Path
) -> tuple[float, float, float, list[int] | None]:
    """Runs a command to its end; returns seconds, CPU seconds, peak MB and the values that it printed.

    Raises:
        Unproved: it failed, or took longer than MOST_SECONDS and was killed.
    """
    with open(folder / "printed", "wb+") as printed:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
        )
        too_long = threading.Timer(MOST_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        too_long.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)  # of the process and all that it waited for
        finally:
            too_long.cancel()
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    if process.returncode != 0:
        why = f"took longer than {MOST_SECONDS} s" if seconds >= MOST_SECONDS else f"exit code {process.returncode}"
        raise Unproved(f"{' '.join(command)}: {why}; it printed: ...{text[-1500:]}")
    values = [json.loads(line.removeprefix("values ")) for line in text.splitlines() if line.startswith("values ")]
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, values[-1] if values else None
