"""doit: Python actions in one process, dependencies and targets as files, its state in sqlite."""

import os
import sys
from pathlib import Path

from dag import LAYERS, WIDTH, body_ran, parents, report, steps, value
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

STATE = Path(os.environ["BENCH_STATE"])
DOIT_CONFIG = {"dep_file": str(STATE / "doit.db"), "backend": "sqlite3", "verbosity": 0, "reporter": "zero"}


def path_of(step: tuple[int, int]) -> Path:
    return STATE / f"{step[0]}_{step[1]}.txt"


def work(step: tuple[int, int]) -> None:
    body_ran()
    path_of(step).write_text(str(value(int(path_of(each).read_text()) for each in parents(*step))))


def task_step():
    for step in steps():
        yield {
            "name": f"{step[0]}_{step[1]}",
            "actions": [(work, [step])],
            "file_dep": [str(path_of(each)) for each in parents(*step)],
            "targets": [str(path_of(step))],
            "uptodate": [True],
        }


if __name__ == "__main__" and "--start-only" not in sys.argv:
    code = DoitMain(ModuleTaskLoader(globals())).run(["run"])
    report(int(path_of((LAYERS - 1, number)).read_text()) for number in range(WIDTH))
    sys.exit(code)
