"""Which engines run the graph, how, and what each of them looks at before it trusts an output of an earlier run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SCRIPTS = Path(__file__).parent / "scripts"
OURS = "marin-exec"
FLOORS = ("no engine", "no engine, fsync")
"""The same work by a loop of forty lines; the second one syncs what it writes, as this engine does."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One row of the table."""

    name: str
    script: str
    checks: str
    """What a warm run looks at."""
    requirements: tuple[str, ...] = ()
    """Pinned packages of its own environment; none: it runs in this project's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    rests_on: Literal["existence", "times", "recipe"] = "recipe"
    """What makes it trust an output: that something stands at the path, the times of files, or what was to be done."""


ENGINES = (
    Engine(name=FLOORS[0], script="run_floor.py", checks="the recipe's digest; that the file is there"),
    Engine(
        name=FLOORS[1],
        script="run_floor.py",
        environment={"FLOOR_FSYNC": "1"},
        checks="the same",
    ),
    Engine(
        name=OURS,
        script="run_marin_exec.py",
        checks="recipe, code, record, inputs' content; each file's size",
    ),
    Engine(name="make -j2", script="run_make.py", checks="order of modification times", rests_on="times"),
    Engine(
        name="doit",
        script="run_doit.py",
        requirements=("doit==0.37.0",),
        checks="times and sizes of inputs; that targets exist",
        rests_on="times",
    ),
    Engine(
        name="joblib",
        script="run_joblib.py",
        requirements=("joblib==1.6.0",),
        checks="arguments, the function's text; reads the value",
    ),
    Engine(
        name="luigi",
        script="run_luigi.py",
        requirements=("luigi==3.8.1",),
        checks="that the file exists",
        rests_on="existence",
    ),
    Engine(
        name="hamilton",
        script="run_hamilton.py",
        requirements=("apache-hamilton==1.90.0",),
        checks="the function's text, data versions; reads the value",
    ),
    Engine(
        name="redun",
        script="run_redun.py",
        requirements=("redun==0.44.1",),
        checks="arguments, the task's text; reads the value",
    ),
    Engine(
        name="snakemake",
        script="run_snakemake.py",
        requirements=("snakemake==9.27.1",),
        checks="times, sets of inputs, parameters, the rule's text",
    ),
    Engine(
        name="kedro",
        script="run_kedro.py",
        requirements=("kedro==1.7.0",),
        checks="that the file exists",
        rests_on="existence",
    ),
    Engine(
        name="prefect",
        script="run_prefect.py",
        requirements=("prefect==3.9.1",),
        checks="arguments, the task's text; reads the value",
    ),
    Engine(
        name="dagster",
        script="run_dagster.py",
        requirements=("dagster==1.13.29",),
        checks="code version, data versions in its event log",
    ),
)


def environments_folder() -> Path:
    """Returns where the environments of the peers are: BENCH_PEERS, or a folder in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(os.environ.get("BENCH_PEERS", cache / "marin-exec" / "bench-peers"))


def environment_of(engine: Engine) -> Path:
    """Returns the folder of an engine's own virtual environment; its name holds the pins."""
    return environments_folder() / "_".join(each.replace("==", "-") for each in engine.requirements)
