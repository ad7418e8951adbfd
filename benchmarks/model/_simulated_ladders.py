"""Ladders drawn from laws that are known, of a wider family than the forecasts' own: with a burn-in and a changing exponent."""

from dataclasses import dataclass

import numpy as np

from steps.forecast.curves import Curve


@dataclass(frozen=True)
class Scale:
    """At what size a ladder is, and how noisy."""

    name: str
    flops: tuple[float, ...]
    target_flops: float
    gap: float
    """Mean of ln(loss - E) of the smallest rung, at its end."""
    own: float
    """Deviation of ln(loss - E) of a run off its law."""
    noise: float
    """Deviation of one evaluation at the peak learning rate, nats a token."""
    marks: tuple[float, ...]


LARGE = Scale(
    "the public ladder's scale",
    flops=(2.6e19, 1.7e20, 1.4e21, 7.7e21),
    target_flops=2.6e24,
    gap=0.4,
    own=0.003,
    noise=0.008,
    marks=tuple(round(0.1 * k, 6) for k in range(1, 11)),
)
SMALL = Scale(
    "the quickstart's scale",
    flops=(1.53e11, 4.12e11, 8.65e11, 1.58e12),
    target_flops=4.06e12,
    gap=1.25,
    own=0.0067,
    noise=0.107,
    marks=tuple(round(0.05 * k, 6) for k in range(1, 21)),
)
"""Deviations are those of the quickstart's smallest rung: 0.032 nats between two seeds' ends; noise by `steps.forecast.noise`."""


@dataclass(frozen=True)
class Law:
    """One ladder's truth."""

    asymptote: float
    gap: float
    exponent: float
    tilt: float
    """By how much the exponent is smaller at the beginning of a run than at its end."""
    early: float
    late: float
    burn_in: float
    """Weights of -ln g, of 1 - g, and of what is over by a fifth of a run."""

    def __call__(self, flops: float, mark: float, smallest: float) -> float:
        """Returns ln(loss - E)."""
        along = -self.early * np.log(mark) + self.late * (1 - mark) + self.burn_in * np.exp(-mark / 0.06)
        return float(self.gap - (self.exponent - self.tilt * (1 - mark)) * np.log(flops / smallest) + along)


def drawn(scale: Scale, rng: np.random.Generator) -> tuple[list[Curve], Curve]:
    """Returns the rungs and the target of a ladder whose law, seeds and noise are drawn anew."""
    law = Law(
        asymptote=float(rng.normal(1.5, 0.2)),
        gap=float(rng.normal(scale.gap, 0.1)),
        exponent=float(rng.uniform(0.06, 0.12)),
        tilt=float(rng.uniform(0.0, 0.015)),
        early=float(rng.uniform(0.01, 0.08)),
        late=float(rng.uniform(0.1, 0.3)),
        burn_in=float(rng.uniform(0.0, 0.2)),
    )
    *rungs, target = [_run(law, scale, flops, rng) for flops in (*scale.flops, scale.target_flops)]
    return rungs, target


def _run(law: Law, scale: Scale, flops: float, rng: np.random.Generator) -> Curve:
    own = scale.own * rng.standard_normal()
    losses = {}
    for mark in scale.marks:
        noise = scale.noise * (1 - 0.95 * mark) * rng.standard_normal()
        losses[mark] = float(law.asymptote + np.exp(law(flops, mark, scale.flops[0]) + own) + noise)
    return Curve(f"{flops:.3g}", 10_000, {"flops": flops}, losses)
