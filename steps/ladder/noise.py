"""The noise of a rung: how far its held-out loss moves when only the seed (initial parameters and data order) changes.

A difference between two runs that is not well above it says nothing.
"""

import json
import statistics
from dataclasses import dataclass

from marin_exec import InputPath, Out, StepFailed, kind
from steps.files import read_bytes, write_json


@dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    """Runs of one rung that differ in their seed only."""

    runs: tuple[InputPath, ...]
    """Outputs of train/language_model, two or more."""


@dataclass(frozen=True)
class NoiseResult:
    """Spread of the final macro loss over seeds, nats a token."""

    num_runs: int
    """Seeds compared."""
    mean_macro_loss: float
    """Mean over the seeds."""
    range_macro_loss: float
    """Largest minus smallest; with two runs, their difference."""
    deviation_macro_loss: float
    """Sample standard deviation over the seeds."""
    mean_range_macro_loss: float
    """Mean of the range over all evaluations of the run, not only the last."""


@kind("ladder/noise", version=1)
def seed_noise(config: NoiseConfig, out: Out) -> NoiseResult:
    """Compares the runs' evaluations step by step and writes `noise.json`: each run's seed, and the range at each step.

    Raises:
        StepFailed: fewer than two runs, runs that differ in more than the seed, or one seed twice.
    """
    runs = [_read_run(str(path)) for path in config.runs]
    if len(runs) < 2:
        raise StepFailed(f"noise: {len(runs)} run given; two or more of one rung with different seeds are needed")
    seeds = [described["seed"] for described, _ in runs]
    if len(set(seeds)) != len(seeds):
        raise StepFailed(f"noise: seeds {seeds}; each run needs its own")
    first = {**runs[0][0], "seed": None}
    for path, (described, _) in zip(config.runs, runs, strict=True):
        other = {**described, "seed": None}
        differing = sorted(name for name in first | other if first.get(name) != other.get(name))
        if differing:
            raise StepFailed(
                f"noise: {path} differs from {config.runs[0]} in {', '.join(differing)}; only the seed may differ"
            )
    by_step = [[row["macro_loss"] for row in at_step] for at_step in zip(*(evals for _, evals in runs), strict=True)]
    ranges = [max(losses) - min(losses) for losses in by_step]
    steps = [row["step"] for row in runs[0][1]]
    page = {"seeds": seeds, "steps": steps, "macro_loss": by_step, "range": ranges}
    write_json(out.file("noise.json"), page)
    return NoiseResult(
        num_runs=len(runs),
        mean_macro_loss=statistics.fmean(by_step[-1]),
        range_macro_loss=ranges[-1],
        deviation_macro_loss=statistics.stdev(by_step[-1]),
        mean_range_macro_loss=statistics.fmean(ranges),
    )


def _read_run(path: str) -> tuple[dict, list[dict]]:
    described = json.loads(read_bytes(f"{path}/run.json"))
    return described, [json.loads(line) for line in read_bytes(f"{path}/evals.jsonl").splitlines()]
