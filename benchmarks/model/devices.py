"""The same training on one device and on eight simulated ones, in one rack and in two: `python -m benchmarks.model.devices`.

50 updates with all of the hero run's features, capacity limits included. The order of sums over a batch differs, so losses
differ in their last digits, and training amplifies that: a token on the edge between two experts goes to the other one (8e-4 seen).
"""

import tempfile
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.model._ladder_store import lines
from benchmarks.model._tiny_run import finish, start, training_inputs

STEPS = 50
BOUND = 2e-3
"""Nats a token, of losses between 7.6 and 6."""


def main() -> int:
    figures, inputs = Figures(), training_inputs()
    with tempfile.TemporaryDirectory(prefix="marin-devices-") as folder:
        compiled = Path(folder, "compiled")
        one = Path(folder, "one")
        finish(start(inputs, one, compiled, num_steps=STEPS))
        for racks in (1, 2):
            path = Path(folder, f"racks-{racks}")
            finish(start(inputs, path, compiled, devices=8, num_steps=STEPS, racks=racks))
            _compare(figures, one, path, f"{racks} x {8 // racks} devices against 1")
    return figures.exit_code


def _compare(figures: Figures, one: Path, many: Path, named: str) -> None:
    rows, others = (lines(f"{path}/metrics.jsonl") for path in (one, many))
    worst = max(abs(a["cross_entropy"] - b["cross_entropy"]) for a, b in zip(rows, others, strict=True))
    figures.add(f"losses over {STEPS} updates, {named}: largest difference", worst, "nats a token", at_most=BOUND)
    drops, other_drops = (sum(row["dropped_assignments"] for row in each) for each in (rows, others))
    difference = abs(other_drops - drops)
    figures.add(f"dropped assignments, {named}: difference", difference, "assignments", at_most=0.02 * drops)
    end, other_end = (lines(f"{path}/evals.jsonl")[-1]["macro_loss"] for path in (one, many))
    figures.add(f"held-out macro loss, {named}: difference", abs(other_end - end), "nats a token", at_most=BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
