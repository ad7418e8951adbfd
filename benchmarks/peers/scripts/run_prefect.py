"""Prefect: one flow, threads, results kept, tasks cached by their inputs and source; its server starts with the flow."""

import os
import sys
from pathlib import Path

os.environ["PREFECT_HOME"] = str(Path(os.environ["BENCH_STATE"], "prefect"))
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["PREFECT_LOGGING_LEVEL"] = "ERROR"
os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "90"

from dag import LAYERS, WIDTH, body_ran, parents, report, steps, value
from prefect import flow, task
from prefect.cache_policies import INPUTS, TASK_SOURCE
from prefect.task_runners import ThreadPoolTaskRunner


@task(cache_policy=INPUTS + TASK_SOURCE, persist_result=True)
def step(layer: int, number: int, of_parents: list[int]) -> int:
    body_ran()
    return value(of_parents)


@flow(task_runner=ThreadPoolTaskRunner(max_workers=10))
def diamond() -> list[int]:
    made = {}
    for each in steps():
        made[each] = step.submit(*each, [made[parent] for parent in parents(*each)])
    return [made[LAYERS - 1, number].result() for number in range(WIDTH)]


if __name__ == "__main__" and "--start-only" not in sys.argv:
    report(diamond())
