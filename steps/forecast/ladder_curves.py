"""What a ladder must be for its curves to be compared mark by mark."""

from collections.abc import Mapping, Sequence

from marin_exec import StepFailed
from steps.forecast.curves import Conditions, Curve


def marks_of(curves: Sequence[Curve]) -> list[float]:
    """Returns the marks of the finished rungs, ascending; unfinished ones have the first of them.

    Raises:
        StepFailed: no rung is finished, or one was evaluated at other marks.
    """
    finished = [curve for curve in curves if curve.finished]
    if not finished:
        raise StepFailed(f"forecast: none of the rungs {[curve.name for curve in curves]} was evaluated at its end")
    marks = sorted(finished[0].losses)
    for curve in curves:
        own = sorted(curve.losses)
        if own != marks[: len(own)] or (curve.finished and own != marks):
            raise StepFailed(
                f"forecast: rung {curve.name} was evaluated at {own}, rung {finished[0].name} at {marks}; "
                f"evaluate all rungs at the same shares of their runs"
            )
    return marks


def interval_of(marks: Sequence[float]) -> float:
    """Returns the share of a run between evaluations.

    Raises:
        StepFailed: the marks are not the multiples of one interval.
    """
    every = marks[0]
    if any(abs(mark - (index + 1) * every) > 1e-6 for index, mark in enumerate(marks)):
        raise StepFailed(
            f"forecast: evaluated at {list(marks)}; evenly spaced marks from the first interval on are needed"
        )
    return every


def check_order(curves: Sequence[Curve], target_flops: Mapping[str, float], conventions: Sequence[str]) -> None:
    """Checks that rungs come smallest first and that the target is larger than all of them.

    Raises:
        StepFailed: they do not, in one of the conventions.
    """
    for convention in conventions:
        flops = [curve.compute(convention) for curve in curves]
        if flops != sorted(flops) or target_flops[convention] <= flops[-1]:
            raise StepFailed(
                f"forecast: computes {flops} and target {target_flops[convention]}; rungs must come smallest first and the "
                f"target must be larger than all of them"
            )


def shared_conditions(curves: Sequence[Curve]) -> Conditions:
    """Returns the conditions that all rungs were run under.

    Raises:
        StepFailed: a rung's are unknown, or two rungs differ.
    """
    first = curves[0].conditions
    for curve in curves:
        if curve.conditions is None or curve.conditions != first:
            raise StepFailed(
                f"forecast: conditions of rung {curve.name} are {curve.conditions}, of rung {curves[0].name} {first}; a ladder "
                f"has one context length, one mixture and one metric"
            )
    assert first is not None
    return first
