"""The fault campaign in its short form, on local disk: see benchmarks/faults.py for what a case is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures() -> dict[str, dict]:
    """Figures by name; in a process of its own, because it forks and must have no threads."""
    parts = [f"--only={part}" for part in ("local", "drivers", "takeover")]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "faults.py"), "--short", *parts],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    found = {each["figure"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert done.returncode in (0, 1) and found, done.stderr
    return {name: each | {"said": done.stderr} for name, each in found.items()}


@pytest.mark.parametrize("when", ["kill at a moment", "kill at a random time"])
def test_run_killed_at_any_moment_serves_no_half_and_is_completed_by_a_plain_rerun(figures, when):
    kills, half, failed = (each for name, each in figures.items() if f"local: {when}" in name and each["bar"])
    assert kills["value"] >= 8
    assert half["value"] == failed["value"] == 0, half["said"]


def test_drivers_at_once_run_every_body_exactly_once_and_all_exit_well(figures):
    told = {name: each["value"] for name, each in figures.items() if name.startswith("4 drivers at once on 40 steps: ")}
    bodies, executions, failed, _ = told.values()
    assert (bodies, executions, failed) == (40, 40, 0)


def test_step_of_a_killed_driver_is_taken_over_after_its_lease_time_and_soon(figures):
    """Twice the lease time is the bar of the benchmark; a loaded machine is given more here."""
    longest = [each["value"] for name, each in figures.items() if name.startswith("take-over") and "longest" in name]
    assert len(longest) == 2 and all(1.0 <= value < 6.0 for value in longest), longest
