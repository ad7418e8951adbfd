"""The best size for a compute: a parabola through runs of one compute, then power laws through the lowest points.

Source: Hoffmann et al. 2022, "Training Compute-Optimal Large Language Models", approach 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marin_exec import StepFailed
from steps.forecast.observations import Observation

MINIMUM_RUNS = 3
"""Runs of one compute, for a parabola."""


@dataclass(frozen=True)
class Lowest:
    """The lowest point of the runs of one compute."""

    flops: float
    parameters: float
    tokens: float
    loss: float
    """Nats a token."""
    num_runs: int
    largest_error: float
    """Of a run about its parabola, nats a token."""


@dataclass(frozen=True)
class Allocation:
    """Best size and length for a compute: N = parameter_amplitude * C**parameter_exponent, and D alike."""

    parameter_amplitude: float
    parameter_exponent: float
    token_amplitude: float
    token_exponent: float

    def __call__(self, flops: float) -> tuple[float, float]:
        """Returns (N, D)."""
        return (
            self.parameter_amplitude * float(flops) ** self.parameter_exponent,
            self.token_amplitude * float(flops) ** self.token_exponent,
        )


def by_budget(
    observations: Sequence[Observation], budgets: Sequence[float], tolerance: float
) -> dict[float, list[Observation]]:
    """Returns the runs of each compute.

    Args:
        observations: all runs.
        budgets: computes in FLOPs.
        tolerance: share of its budget that a run's compute may be off.

    Raises:
        StepFailed: a run is near none of the budgets.
    """
    groups: dict[float, list[Observation]] = {float(budget): [] for budget in sorted(budgets)}
    for each in observations:
        nearest = min(groups, key=lambda budget: abs(np.log(each.compute / budget)))
        if abs(each.compute / nearest - 1) > tolerance:
            raise StepFailed(
                f"isoflop: run {each.name} has {each.compute:.4g} FLOPs, the nearest budget is {nearest:.4g}; at most "
                f"{tolerance:.0%} off is allowed. State its budget too, or leave the run out"
            )
        groups[nearest].append(each)
    return groups


def lowest_point(flops: float, runs: Sequence[Observation]) -> Lowest:
    """Returns the vertex of the least-squares parabola of the loss in ln N.

    Raises:
        StepFailed: fewer than three sizes, a parabola that opens downwards, or a vertex outside the sizes tried.
    """
    log_N = np.log([float(each.parameters) for each in runs])
    loss_N = np.array([each.loss for each in runs])
    if len(set(log_N)) < MINIMUM_RUNS:
        raise StepFailed(
            f"isoflop: {len(set(log_N))} sizes at {flops:.4g} FLOPs; a parabola needs {MINIMUM_RUNS} or more"
        )
    centre = log_N.mean()
    curvature, slope, constant = np.polyfit(log_N - centre, loss_N, 2)
    if not curvature > 0:
        raise StepFailed(
            f"isoflop: the losses at {flops:.4g} FLOPs have no lowest point (curvature {curvature:.3g} in ln N); add smaller and "
            f"larger sizes"
        )
    vertex = -slope / (2 * curvature)
    if not log_N.min() <= vertex + centre <= log_N.max():
        raise StepFailed(
            f"isoflop: the lowest point at {flops:.4g} FLOPs would be at {np.exp(vertex + centre):.4g} parameters, outside the "
            f"sizes tried, {np.exp(log_N.min()):.4g} to {np.exp(log_N.max()):.4g}; add sizes on that side"
        )
    tokens = np.polyfit(log_N - centre, np.log([float(each.tokens) for each in runs]), 1)
    errors = np.polyval([curvature, slope, constant], log_N - centre) - loss_N
    return Lowest(
        flops=float(flops),
        parameters=float(np.exp(vertex + centre)),
        tokens=float(np.exp(np.polyval(tokens, vertex))),
        loss=float(constant - slope**2 / (4 * curvature)),
        num_runs=len(runs),
        largest_error=float(np.abs(errors).max()),
    )


def fit_allocation(groups: Mapping[float, Sequence[Observation]]) -> tuple[list[Lowest], Allocation]:
    """Returns the lowest point of each compute, and the power laws through them.

    Raises:
        StepFailed: fewer than two computes, or one without a lowest point.
    """
    if len(groups) < 2:
        raise StepFailed(f"isoflop: {len(groups)} budgets; two or more are needed for a law")
    lowest = [lowest_point(flops, runs) for flops, runs in sorted(groups.items())]
    log_flops = np.log([each.flops for each in lowest])
    laws = []
    for values in ([each.parameters for each in lowest], [each.tokens for each in lowest]):
        exponent, amplitude = np.polyfit(log_flops, np.log(values), 1)
        laws += [float(np.exp(amplitude)), float(exponent)]
    return lowest, Allocation(*laws)
