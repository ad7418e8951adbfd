"""What the engine costs on Ray, over a bare Ray task: part of `make bench-engine`.

A cluster of two cores runs already, its workers have been used, and a driver attaches to it. The same graph of 200 steps
runs as bare tasks, sent by a loop that waits for what each needs, as any driver does that looks into a store first; and
as steps, with lease, log, record and synced commit. Bodies do nothing. Times are the best of several.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.engine import best_of, diamond
from marin_exec.plan import make_plan
from marin_exec.provenance import RunContext
from marin_exec.runners.ray import RayBackend
from marin_exec.runners.scheduler import Scheduler
from marin_exec.step import Step, dependencies, topological
from marin_exec.store import Store

NUM_CPUS = 2
MOST_SECONDS = 300
MOST_OVER_BARE_MS = 10


def run_bare(targets: list[Step]) -> float:
    """Runs a graph as bare tasks; returns seconds."""
    import ray

    @ray.remote(num_cpus=1, max_retries=0)
    def task(number: int) -> int:
        return number

    order = topological(targets)
    needs = {id(step): {id(each) for each in dependencies(step)} for step in order}
    started = time.perf_counter()
    waiting, running, done = dict.fromkeys(needs), dict[Any, int](), set[int]()
    while waiting or running:
        for step in [each for each in waiting if needs[each] <= done]:
            del waiting[step]
            running[task.remote(step)] = step
        ready, _ = ray.wait(list(running), num_returns=1)
        for ref in ready:
            done.add(running.pop(ref))
            ray.get(ref)
    return time.perf_counter() - started


def run_steps(targets: list[Step], folder: Path, backend: RayBackend) -> float:
    """Runs a graph as steps in a fresh store; returns seconds from the plan on."""
    store = Store.open(tempfile.mkdtemp(dir=folder))
    context = RunContext(run_id="bench", experiment="bench", provenance={})
    scheduler = Scheduler(plan=make_plan(targets, store), store=store, backend=backend, context=context)
    started = time.perf_counter()
    statuses = scheduler.run()
    seconds = time.perf_counter() - started
    assert all(status.state == "done" for status in statuses.values())
    return seconds


def measure(address: str, tries: int) -> dict[str, float]:
    """Attaches to a cluster; returns seconds of both, and of attaching."""
    targets = diamond()
    backend = RayBackend(address, by_value=("benchmarks.engine",))
    started = time.perf_counter()
    backend.start()
    attached = time.perf_counter() - started
    try:
        with tempfile.TemporaryDirectory() as folder:
            run_bare(targets)  # starts workers
            run_steps(targets, Path(folder), backend)  # and has them import the engine
            bare = best_of(tries, lambda: run_bare(targets))
            steps = best_of(tries, lambda: run_steps(targets, Path(folder), backend))
    finally:
        backend.stop()
    return {"attached": attached, "bare": bare, "steps": steps}


def in_a_process_of_its_own(address: str, tries: int) -> dict[str, float]:
    """Returns what a driver measured that is not the process which started the cluster."""
    command = [sys.executable, "-m", "benchmarks.engine_on_ray", "--driver", address, "--tries", str(tries)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=MOST_SECONDS)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="What a step costs on Ray, over a bare task.")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--driver", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.driver:
        print(json.dumps(measure(options.driver, options.tries)))
        return
    cluster = RayBackend("local", num_cpus=NUM_CPUS)
    started = time.perf_counter()
    cluster.start()
    cluster_seconds = time.perf_counter() - started
    try:
        import ray

        found = in_a_process_of_its_own(ray.get_runtime_context().gcs_address, options.tries)
    finally:
        cluster.stop()
    bare_ms, step_ms = (1000 * found[each] / 200 for each in ("bare", "steps"))
    figures = [
        ("starting a Ray cluster on this machine", cluster_seconds, "s", None),
        ("attaching a driver to it", found["attached"], "s", None),
        ("bare Ray task, 200 of the diamond", bare_ms, "ms/task", None),
        ("cold no-op step on Ray, the same diamond", step_ms, "ms/step", None),
        ("step on Ray over a bare task", step_ms - bare_ms, "ms/step", MOST_OVER_BARE_MS),
    ]
    for name, value, unit, bar in figures:
        holds = bar is None or value <= bar
        print(json.dumps({"figure": name, "value": round(value, 3), "unit": unit, "bar": bar, "holds": holds}))
    sys.exit(step_ms - bare_ms > MOST_OVER_BARE_MS)


if __name__ == "__main__":
    main()
