"""Evaluation curves of training runs, read from their outputs and matched by progress."""

import json
from dataclasses import dataclass

from marin_exec import StepFailed, open_file
from steps.files import read_bytes


@dataclass(frozen=True)
class Curve:
    """One run's held-out macro loss over its course."""

    name: str
    num_steps: int
    flops: float
    """Of the whole run, in the convention asked for."""
    flops_convention: str
    losses: dict[float, float]
    """Macro loss, nats a token, by matched progress: the share of the run done, to the nearest evaluation mark."""


def read_curve(name: str, path: str, *, flops_convention: str, every: float) -> Curve:
    """Reads `run.json` and `evals.jsonl` of a train/language_model output.

    Args:
        name: of the run, for messages and pages.
        path: its output directory.
        flops_convention: the key of `run.json` that compute is taken from, "flops" or "flops_with_lm_head".
        every: the share of a run between evaluations; progress is rounded to a multiple of it.

    Raises:
        StepFailed: the run has no evaluations, or none at its end.
    """
    run = json.loads(read_bytes(f"{path}/run.json"))
    with open_file(f"{path}/evals.jsonl", "rb") as file:
        rows = [json.loads(line) for line in file]
    losses: dict[float, float] = {}
    for row in rows:
        mark = round(round(row["progress"] / every) * every, 6)
        if mark <= 0 or mark in losses:
            raise StepFailed(
                f"run {name} ({path}): its evaluation at {row['progress']:.3%} of the run falls on mark {mark:.0%}, which is "
                f"{'no progress' if mark <= 0 else 'taken'}; evaluations every {every:.1%} were expected. State the "
                f"interval that the run was evaluated at"
            )
        losses[mark] = row["macro_loss"]
    if 1.0 not in losses:
        raise StepFailed(
            f"run {name} ({path}): has no evaluation at its end, only at {sorted(losses)}; finish it first"
        )
    return Curve(name, run["num_steps"], float(run[flops_convention]), flops_convention, losses)
