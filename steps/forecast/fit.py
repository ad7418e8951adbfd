"""The scaling law behind a forecast: loss = E + A * C**-alpha, with the asymptote E declared and not fitted.

Four rungs cannot tell E from A and alpha: over the hero ladder, E between 1.3 and 1.7 moves the forecast by 0.07 nats
while all fits look alike. So E is part of the method's declaration, and a forecast carries the range that other values
of E, and leaving out any one rung, would have given.

Source of the form and of fitting each progress apart: the projection of Marin's 535B-A23B run (issue 8435 of
marin-community/marin), which takes E = 1.5 and ordinary least squares on (ln C, ln(L - E)).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marin_exec import StepFailed


@dataclass(frozen=True)
class PowerLaw:
    """loss(C) = asymptote + amplitude * C**-exponent."""

    asymptote: float
    """Nats a token."""
    amplitude: float
    exponent: float

    def __call__(self, flops: float) -> float:
        """Returns the loss, nats a token, at a compute in FLOPs."""
        return self.asymptote + self.amplitude * float(flops) ** -self.exponent


def fit_power_law(flops: Sequence[float], losses: Sequence[float], asymptote: float) -> PowerLaw:
    """Returns the least-squares line through (ln C, ln(L - E)).

    Args:
        flops: compute of each run; at least two different values.
        losses: their losses, nats a token.
        asymptote: E, nats a token.

    Raises:
        StepFailed: fewer than two distinct computes, or a loss that is not above the asymptote.
    """
    if len(set(flops)) < 2:
        raise StepFailed(f"power law: computes {list(flops)}; runs at two or more different computes are needed")
    low = [loss for loss in losses if not loss > asymptote]
    if low:
        raise StepFailed(
            f"power law: loss {low[0]} is not above the asymptote {asymptote}; declare an asymptote below every loss"
        )
    slope, intercept = np.polyfit(np.log(np.asarray(flops, float)), np.log(np.asarray(losses, float) - asymptote), 1)
    return PowerLaw(asymptote, float(np.exp(intercept)), float(-slope))


@dataclass(frozen=True)
class Prediction:
    """A predicted loss and the range of what other choices would have predicted."""

    law: PowerLaw
    loss: float
    low: float
    high: float
    leave_one_out: tuple[float, ...]
    """The prediction without each rung in turn."""
    by_asymptote: tuple[float, ...]
    """The prediction at each end of the asymptote's range."""


def predict(
    flops: Sequence[float],
    losses: Sequence[float],
    target_flops: float,
    *,
    asymptote: float,
    asymptote_range: tuple[float, float],
) -> Prediction:
    """Fits the rungs and predicts a run at another compute, with the range over rungs left out and asymptotes.

    Raises:
        StepFailed: fewer than three rungs (none could be left out), or a fit that is not possible.
    """
    if len(flops) < 3:
        raise StepFailed(f"forecast: {len(flops)} rungs; three or more are needed, so that one can be left out")
    law = fit_power_law(flops, losses, asymptote)
    without = []
    for left_out in range(len(flops)):
        kept = [i for i in range(len(flops)) if i != left_out]
        fitted = fit_power_law([flops[i] for i in kept], [losses[i] for i in kept], asymptote)
        without.append(fitted(target_flops))
    ends = tuple(fit_power_law(flops, losses, each)(target_flops) for each in asymptote_range)
    loss = law(target_flops)
    every = [loss, *without, *ends]
    return Prediction(law, loss, min(every), max(every), tuple(without), ends)
