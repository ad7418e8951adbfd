"""Learning rates and Adam's constants as functions of tokens, width and batch, and their course over a run.

Laws and constants: issues 7856 and 8003 (the refit of August 2026, which ladder and hero use), 5951 (May) and 8435 of
marin-community/marin.
"""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class RateLaw:
    """Peak rate = coefficient x tokens^a x width^b x sqrt(batch), not above the cap."""

    name: str
    source: str
    coefficient: float
    tokens_exponent: float
    width_exponent: float
    batch_unit: Literal["tokens", "sequences"]
    """What the square root is taken of."""
    cap: float | None = None
    """Highest rate that it gives; None: none."""
    sequence_length: int | None = None
    """Of the runs that it was fitted to; None: not published."""
    widths: tuple[int, int] | None = None
    """Smallest and largest width that it was fitted to; None: not published."""
    tokens: tuple[float, float] | None = None
    """Fewest and most tokens that it was fitted to; None: not published."""
    r_squared: float | None = None
    """Of the fit; None: not published."""

    def uncapped(self, *, tokens: int, width: int, batch: int) -> float:
        """Returns the peak rate before the cap.

        Args:
            tokens: of the whole run.
            width: of the residual stream.
            batch: of an update, in `batch_unit`.
        """
        return self.coefficient * tokens**self.tokens_exponent * width**self.width_exponent * math.sqrt(batch)

    def __call__(self, *, tokens: int, width: int, batch: int) -> float:
        """Returns the peak rate; arguments as for `uncapped`."""
        rate = self.uncapped(tokens=tokens, width=width, batch=batch)
        return rate if self.cap is None else min(self.cap, rate)


@dataclass(frozen=True, kw_only=True)
class OptimizerRule:
    """How the optimiser's settings follow from the size of a run."""

    law: RateLaw
    """Of the Adam group's peak rate."""
    hyperball_over_adam: float
    """Peak rate of MuonH and AdamH (the angle of an update) over Adam's."""
    warmup_share: float
    """Of the updates, rounded down; the rate rises from 0 in a straight line."""
    final_share: float
    """Of the peak, at the end; the rate falls to it in a straight line from the end of the warm-up on."""
    beta1: float
    beta2_per_batch: float
    """Decay of the square for an update of `beta2_batch_tokens`; to the power of the batch over it for others."""
    beta2_batch_tokens: int
    beta2_bounds: tuple[float, float]
    epsilon_per_root_step: float
    """Epsilon over the root of tokens / tokens a step."""
    momentum: float
    """Of Muon, Nesterov."""
    muon_epsilon: float
    newton_schulz: tuple[tuple[float, float, float], ...]
    """Coefficients of each iteration's odd polynomial: a x + b x^3 + c x^5."""

    def beta2(self, tokens_per_step: int) -> float:
        """Returns Adam's decay of the square."""
        low, high = self.beta2_bounds
        return min(high, max(low, self.beta2_per_batch ** (tokens_per_step / self.beta2_batch_tokens)))

    def epsilon(self, tokens: int, tokens_per_step: int) -> float:
        """Returns Adam's epsilon."""
        return self.epsilon_per_root_step * math.sqrt(tokens / tokens_per_step)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Peaks and course of one run's rates."""

    adam: float
    """Peak of the Adam group."""
    hyperball: float
    """Peak of MuonH and AdamH."""
    beta2: float
    epsilon: float
    warmup_steps: int
    num_steps: int
    final_share: float

    def share(self, step: int) -> float:
        """Returns the rate at an update as a share of the peak: 0 at update 0, 1 at the end of the warm-up.

        Raises:
            ValueError: the run has no such update.
        """
        if not 0 <= step <= self.num_steps:
            raise ValueError(f"rates: step {step} of a run of {self.num_steps}; 0 to {self.num_steps} is allowed")
        if step < self.warmup_steps:
            return step / self.warmup_steps
        falling = max(1, self.num_steps - self.warmup_steps)
        return 1 - (1 - self.final_share) * (step - self.warmup_steps) / falling

    def hyperball_at(self, step: int) -> float:
        """Returns MuonH's and AdamH's rate at an update."""
        return self.hyperball * self.share(step)

    def adam_at(self, step: int) -> float:
        """Returns Adam's rate at an update."""
        return self.adam * self.share(step)


def rates(rule: OptimizerRule, *, width: int, num_steps: int, batch_sequences: int, sequence_length: int) -> Rates:
    """Returns the rates that a rule gives a run."""
    tokens_per_step = batch_sequences * sequence_length
    tokens = num_steps * tokens_per_step
    batch = tokens_per_step if rule.law.batch_unit == "tokens" else batch_sequences
    adam = rule.law(tokens=tokens, width=width, batch=batch)
    return Rates(
        adam=adam,
        hyperball=rule.hyperball_over_adam * adam,
        beta2=rule.beta2(tokens_per_step),
        epsilon=rule.epsilon(tokens, tokens_per_step),
        warmup_steps=int(rule.warmup_share * num_steps),
        num_steps=num_steps,
        final_share=rule.final_share,
    )


@dataclass(frozen=True, kw_only=True)
class FadingDecay:
    """Decoupled weight decay that is put on some parameters in the middle of a run, and fades to 0 at its end."""

    leaves: tuple[str, ...]
    """Last parts of the parameters' paths."""
    from_step: int
    """First update that has it."""
    weight: float

    def at(self, step: int, num_steps: int) -> float:
        """Returns the decay at an update: weight x (1 - step / num_steps) from `from_step` on, 0 before."""
        return self.weight * (1 - step / num_steps) if step >= self.from_step else 0.0
