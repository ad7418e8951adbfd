"""The noise of one evaluation: how far a held-out loss lies off the smooth course of its own run.

Estimated from second differences of neighbouring evaluations, in which a smooth course cancels (Gasser, Sroka and
Jennen-Steinmetz 1986, "Residual variance and residual pattern in nonlinear regression"). Weights move in proportion to
the learning rate, and so does the noise here: its unit is nats at the peak rate, under a rate that falls in a straight
line. What is left of the course's own bend in a difference is counted as noise too, so the estimate errs upwards.

The macro loss is a mean over sets, whose noises are correlated; with the sets' own losses their covariance says which of
them the macro's noise comes from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marin_exec import StepFailed
from steps.forecast.curves import Curve

SETTLED_FROM = 0.1
"""Earlier evaluations bend too much for differences to be noise, a share of the run."""

NOISE_FLOOR = 0.001
"""Nats a token: noise of an evaluation that does not fall with the learning rate."""


def learning_rate_share(progress: np.ndarray, final_share: float) -> np.ndarray:
    """Returns the learning rate at each progress as a share of its peak: a straight line down to the final share."""
    return 1.0 - (1.0 - final_share) * progress


@dataclass(frozen=True)
class SetNoise:
    """Noise of one held-out set."""

    deviation: float
    """Nats a token at the peak learning rate."""
    share_of_macro_variance: float
    """Its covariance with the macro loss, as a share of the macro's variance: all sets together make 1."""


@dataclass(frozen=True)
class EvaluationNoise:
    """Noise of the macro loss, and of the sets that it is the mean of."""

    deviation: float
    """Nats a token at the peak learning rate."""
    num_differences: int
    """Second differences that it was estimated from."""
    sets: dict[str, SetNoise]
    """By name; empty where only the macro loss is known."""
    deviation_if_independent: float | None
    """What the macro's noise would be if its sets were uncorrelated; None without them."""


def evaluation_noise(curves: Sequence[Curve], final_share: float) -> EvaluationNoise:
    """Returns the noise over all curves together.

    Args:
        curves: evaluated at evenly spaced marks, as `steps.forecast.ladder_curves.interval_of` checks.
        final_share: learning rate at the end of a run, as a share of its peak.

    Raises:
        StepFailed: no curve has three evaluations after the settling.
    """
    macro_N = np.concatenate([_differences(curve.losses, final_share) for curve in curves])
    if not len(macro_N):
        raise StepFailed(
            f"forecast: no rung has three evaluations from {SETTLED_FROM:.0%} of its course on, so the noise of an evaluation "
            f"cannot be told; evaluate more often"
        )
    deviation = float(np.sqrt(np.mean(macro_N**2)))
    names = sorted(set.intersection(*(set(curve.set_losses) for curve in curves)))
    if not names:
        return EvaluationNoise(deviation, len(macro_N), {}, None)
    sets_DN = np.array(
        [np.concatenate([_differences(c.set_losses[name], final_share) for c in curves]) for name in names]
    )
    covariance_DD = sets_DN @ sets_DN.T / sets_DN.shape[1]
    share_D = covariance_DD.sum(axis=1) / covariance_DD.sum()
    sets = {name: SetNoise(float(np.sqrt(covariance_DD[i, i])), float(share_D[i])) for i, name in enumerate(names)}
    independent = float(np.sqrt(np.trace(covariance_DD)) / len(names))
    return EvaluationNoise(deviation, len(macro_N), sets, independent)


def _differences(losses: Mapping[float, float], final_share: float) -> np.ndarray:
    """Returns second differences of a curve, each divided by the deviation that unit noise at the peak rate would give it."""
    marks_M = np.array([mark for mark in sorted(losses) if mark >= SETTLED_FROM - 1e-9])
    if len(marks_M) < 3:
        return np.zeros(0)
    loss_M = np.array([losses[mark] for mark in marks_M])
    rate_M = learning_rate_share(marks_M, final_share)
    difference = loss_M[:-2] - 2 * loss_M[1:-1] + loss_M[2:]
    return difference / np.sqrt(rate_M[:-2] ** 2 + 4 * rate_M[1:-1] ** 2 + rate_M[2:] ** 2)
