"""redun: a task a step, in threads, each layer given plain values.

Written with lazy expressions throughout, as its documentation does, this graph is walked by paths: ten layers take
twenty seconds and twenty never end. So each layer is evaluated before the next is made.
"""

import logging
import os
import sys
from pathlib import Path

from dag import LAYERS, WIDTH, body_ran, parents, report, value
from redun import Scheduler, task
from redun.config import Config

redun_namespace = "bench"


@task(executor="default")
def step(layer: int, number: int, of_parents: list) -> int:
    body_ran()
    return value(of_parents)


@task()
def layers_from(layer: int, above: list) -> list:
    if layer == LAYERS:
        return above
    made = [step(layer, number, [above[b] for _, b in parents(layer, number)]) for number in range(WIDTH)]
    return layers_from(layer + 1, made)


if __name__ == "__main__" and "--start-only" not in sys.argv:
    logging.getLogger("redun").setLevel(logging.ERROR)
    database = Path(os.environ["BENCH_STATE"], "redun.db")
    settings = {
        "backend": {"db_uri": f"sqlite:///{database}"},
        "executors.default": {"type": "local", "mode": "thread", "max_workers": 2},
    }
    scheduler = Scheduler(config=Config(settings))
    scheduler.load()
    report(scheduler.run(layers_from(0, [])))
