"""The ladder experiment for benchmarks: run once a machine, in ~/.cache/marin-exec/ladder, then read from there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from marin_exec.store import Store

STORE = Path.home() / ".cache/marin-exec/ladder"
_EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments/ladder.py"
_PROGRAM = Path(sys.executable).parent / "marin-exec"


def outputs(*until: str) -> dict[str, str]:
    """Returns the path of each finished step's output by the step's name, after making what is missing.

    Args:
        until: names of the steps that are needed; none makes the whole experiment.

    Raises:
        RuntimeError: a step failed.
    """
    STORE.mkdir(parents=True, exist_ok=True)
    chosen = [part for name in until for part in ("--until", name)]
    done = subprocess.run(
        [str(_PROGRAM), "run", str(_EXPERIMENT), "--prefix", str(STORE), *chosen], stdout=subprocess.PIPE
    )
    if done.returncode:
        raise RuntimeError(f"the ladder could not be made: exit {done.returncode}; what failed is said above")
    planned = subprocess.run(
        [str(_PROGRAM), "plan", str(_EXPERIMENT), "--prefix", str(STORE), "--json"], capture_output=True, check=True
    )
    store = Store.open(str(STORE))
    records = {each["name"]: store.current(each["digest"]) for each in json.loads(planned.stdout)["steps"]}
    return {name: f"{STORE}/{record.output_path}" for name, record in records.items() if record}


def lines(path: str) -> list[dict[str, Any]]:
    """Returns the rows of a JSON-lines file."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]
