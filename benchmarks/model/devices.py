"""The same training on one device and on eight simulated ones: `python -m benchmarks.model.devices`.

50 updates with all of the hero run's features, capacity limits included. The order of sums over a batch differs, so losses
differ in their last digits, and training amplifies that.
"""

import tempfile
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.model._ladder_store import lines
from benchmarks.model._tiny_run import finish, start, training_inputs

STEPS = 50
BOUND = 2e-4
"""Nats a token, of losses between 7.6 and 6."""


def main() -> int:
    figures, inputs = Figures(), training_inputs()
    with tempfile.TemporaryDirectory(prefix="marin-devices-") as folder:
        paths = {devices: Path(folder, str(devices)) for devices in (1, 8)}
        for devices, path in paths.items():
            finish(start(inputs, path, Path(folder, "compiled"), devices=devices, num_steps=STEPS))
        one, eight = (lines(f"{path}/metrics.jsonl") for path in paths.values())
        worst = max(abs(a["cross_entropy"] - b["cross_entropy"]) for a, b in zip(one, eight, strict=True))
        figures.add(
            f"losses over {STEPS} updates, 8 devices against 1: largest difference",
            worst,
            "nats a token",
            at_most=BOUND,
        )
        drops = [sum(row["dropped_assignments"] for row in rows) for rows in (one, eight)]
        figures.add(
            "dropped assignments, 8 devices less 1", abs(drops[1] - drops[0]), "assignments", at_most=0.001 * drops[0]
        )
        ends = [lines(f"{path}/evals.jsonl")[-1]["macro_loss"] for path in paths.values()]
        figures.add("held-out macro loss at the end, difference", abs(ends[1] - ends[0]), "nats a token", at_most=BOUND)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
