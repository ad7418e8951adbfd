"""forecast/holdout: what a method would have said of the largest rung, from the smaller ones alone.

The one check that a ladder allows before the run above it: a rung that is already there, at the marks that it reached.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marin_exec import InputPath, Out, StepFailed, kind
from steps.files import write_json
from steps.forecast.curves import Curve, read_curves
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.method import Method
from steps.forecast.scoring import Summary, scored, summary


@dataclass(frozen=True, kw_only=True)
class HoldoutConfig:
    curves: InputPath
    """Output of forecast/run_curves or forecast/public_figures: the rungs, smallest first."""
    method: MatchedProgress | JointSmooth
    """The method that is tried."""


@dataclass(frozen=True)
class HoldoutResult:
    method: str
    held_out: str
    """The largest rung."""
    score: Summary
    """Over the marks that it reached."""
    last_error: float
    """At the last of them, predicted less actual, nats a token."""


@kind("forecast/holdout", version=1)
def holdout(config: HoldoutConfig, out: Out) -> HoldoutResult:
    """Writes `holdout.json`: predicted, actual, error and intervals at every mark of the rung held out.

    Raises:
        StepFailed: too few rungs are left for the method, or they lack marks that the one held out has.
    """
    curves = read_curves(config.curves)
    rows = held_out_rows(config.method, curves)
    result = HoldoutResult(config.method.id, curves[-1].name, summary(rows), rows[-1]["error"])
    write_json(out.file("holdout.json"), {**asdict(result), "parameters": asdict(config.method), "marks": rows})
    return result


def held_out_rows(method: Method, curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Returns the score of the last curve at each of its marks, forecast by a method from those before it.

    Raises:
        StepFailed: a curve before it lacks one of its marks, or the method refuses them.
    """
    *smaller, target = curves
    marks = sorted(target.losses)
    for curve in smaller:
        missing = [mark for mark in marks if mark not in curve.losses]
        if missing:
            raise StepFailed(
                f"holdout: rung {curve.name} was not evaluated at {missing[0]:.0%} of its run, {target.name} was"
            )
    flops = {convention: target.compute(convention) for convention in method.conventions}
    made = method.forecast(smaller, flops, marks)
    return [scored(mark, target.losses[mark.progress]) for mark in made.marks]
