"""Evaluation curves of training runs, matched by progress: read from a run's output, or from a file that holds several.

`curves.json` is how curves of runs that were made elsewhere reach a forecast: a list of runs with their compute in each
convention, the conditions that they were trained and evaluated under, and a loss at each share of their course.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from marin_exec import StepFailed, open_file
from steps.files import read_bytes, write_json

CONVENTIONS = ("flops", "flops_with_lm_head")
"""Whether a run's compute counts the output head."""
CURVES_FILE = "curves.json"


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What two losses must have in common, besides their progress, to be compared by a forecast."""

    context_length: int
    """Tokens of a training sequence."""
    mixture: str
    """Tag or digest of the data mixture trained on."""
    metric: str
    """Name of the held-out loss, and of the sets that it is over."""


@dataclass(frozen=True)
class Curve:
    """One run's held-out macro loss over its course."""

    name: str
    num_steps: int
    flops: dict[str, float]
    """Of the whole run, by convention."""
    losses: dict[float, float]
    """Macro loss, nats a token, by matched progress: the share of the run done, to the nearest evaluation mark."""
    set_losses: dict[str, dict[float, float]] = field(default_factory=dict)
    """The same of each held-out set, where they are known; the macro loss is their mean."""
    conditions: Conditions | None = None
    """None where nothing is known of them."""

    def compute(self, convention: str) -> float:
        """Returns the FLOPs of the whole run in a convention.

        Raises:
            StepFailed: they are not known in this one.
        """
        if convention not in self.flops:
            raise StepFailed(
                f'run {self.name}: its compute in the convention "{convention}" is not known, only in {sorted(self.flops)}; '
                f"choose one that all runs have"
            )
        return float(self.flops[convention])

    @property
    def finished(self) -> bool:
        """Whether it was evaluated at its end."""
        return 1.0 in self.losses


def read_curve(name: str, path: str, *, every: float) -> Curve:
    """Reads `run.json` and `evals.jsonl` of a train/language_model output.

    Args:
        name: of the run, for messages and pages.
        path: its output directory.
        every: the share of a run between evaluations; progress is rounded to a multiple of it.

    Raises:
        StepFailed: the run has no evaluations, or none at its end.
    """
    run = json.loads(read_bytes(f"{path}/run.json"))
    with open_file(f"{path}/evals.jsonl", "rb") as file:
        rows = [json.loads(line) for line in file]
    losses: dict[float, float] = {}
    set_losses: dict[str, dict[float, float]] = {}
    for row in rows:
        mark = round(round(row["progress"] / every) * every, 6)
        if mark <= 0 or mark in losses:
            raise StepFailed(
                f"run {name} ({path}): its evaluation at {row['progress']:.3%} of the run falls on mark {mark:.0%}, which is "
                f"{'no progress' if mark <= 0 else 'taken'}; evaluations every {every:.1%} were expected. State the "
                f"interval that the run was evaluated at"
            )
        losses[mark] = row["macro_loss"]
        for each, values in row.get("sets", {}).items():
            set_losses.setdefault(each, {})[mark] = values["loss"]
    if 1.0 not in losses:
        raise StepFailed(
            f"run {name} ({path}): has no evaluation at its end, only at {sorted(losses)}; finish it first"
        )
    flops = {convention: run[convention] for convention in CONVENTIONS if convention in run}
    return Curve(name, run["num_steps"], flops, losses, set_losses)


def curve_row(curve: Curve) -> dict[str, Any]:
    """Returns a curve as plain JSON values: losses as pairs of mark and loss, marks ascending, sets by name."""
    sets = {name: sorted(losses.items()) for name, losses in sorted(curve.set_losses.items())}
    return {**asdict(curve), "losses": sorted(curve.losses.items()), "set_losses": sets}


def write_curves(path: str, curves: Sequence[Curve]) -> None:
    """Writes a curves file."""
    write_json(path, {"curves": [curve_row(curve) for curve in curves]})


def read_curves(path: str) -> tuple[Curve, ...]:
    """Reads the curves of a directory that holds a curves file.

    Raises:
        StepFailed: it holds no curve, a run twice, or a curve without a loss.
    """
    curves = tuple(_curve(row) for row in json.loads(read_bytes(f"{path}/{CURVES_FILE}"))["curves"])
    names = [curve.name for curve in curves]
    if not names or len(set(names)) != len(names):
        raise StepFailed(f"{path}/{CURVES_FILE}: holds runs {names}; at least one is needed, each with its own name")
    for curve in curves:
        if not curve.losses:
            raise StepFailed(f"{path}/{CURVES_FILE}: run {curve.name} has no losses; leave it out")
    return curves


def _curve(row: Mapping[str, Any]) -> Curve:
    conditions = row["conditions"]
    return Curve(
        row["name"],
        row["num_steps"],
        dict(row["flops"]),
        dict(row["losses"]),
        {name: dict(losses) for name, losses in row["set_losses"].items()},
        None if conditions is None else Conditions(**conditions),
    )
