"""Longer sequences late in a run: tokens an update stay as they are, and queries are scaled up.

Source: issues 8435 and 9615 of marin-community/marin. None of these stages had been trained when this was written.
"""

import math
from dataclasses import dataclass

from steps.recipe.checks import check_at_least


@dataclass(frozen=True, kw_only=True)
class ContextStage:
    """From where on sequences have another length."""

    start_fraction: float
    """Of the run."""
    sequence_length: int

    def __post_init__(self) -> None:
        check_at_least(self, 1, "sequence_length")


@dataclass(frozen=True, kw_only=True)
class ContextSchedule:
    """The lengths of a run's sequences after the one that it starts with, and what goes with them."""

    qk_mult: float
    """Factor on the normalised queries at the length that the run starts with."""
    qk_slope: float
    """What an e-fold of length adds to the factor, as a share of it."""
    stages: tuple[ContextStage, ...] = ()

    def qk_mult_at(self, sequence_length: int, base_length: int) -> float:
        """Returns qk_mult x (slope x ln(length / base) + 1)."""
        return self.qk_mult * (self.qk_slope * math.log(sequence_length / base_length) + 1)


def batch_at(tokens_per_step: int, sequence_length: int) -> int:
    """Returns the sequences of an update that keep its tokens.

    Raises:
        ValueError: the length does not divide the tokens of an update.
    """
    batch, rest = divmod(tokens_per_step, sequence_length)
    if rest:
        raise ValueError(
            f"context: sequences of {sequence_length} do not divide an update of {tokens_per_step} tokens ({rest} are left); "
            f"choose a length that does"
        )
    return batch
