"""Caps on exposure and rounding to a block, as plain functions on arrays.

Shapes: C components, P phases. `weights` float64[C, P], columns sum to 1; `available` int64[C], the tokens an epoch of
each has; `phase_shares` float64[P], fractions of the run, sum 1.
"""

from collections.abc import Callable

import numpy as np

from marin_exec import ConfigError

_TOLERANCE = 1e-9


def exposures(weights: np.ndarray, available: np.ndarray, phase_shares: np.ndarray, budget_tokens: int) -> np.ndarray:
    """Returns the epochs of each component, float64[C]: tokens drawn over all phases / tokens available."""
    drawn = weights @ phase_shares * budget_tokens
    return np.divide(drawn, available, out=np.zeros(len(drawn)), where=available > 0)


def cap_exposures(
    names: list[str],
    weights: np.ndarray,
    available: np.ndarray,
    phase_shares: np.ndarray,
    budget_tokens: int,
    max_epochs: float,
    over_cap: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights under which no component is seen more than `max_epochs` times, and which were held there.

    Water-filling: components above the cap are scaled down to it, in all phases alike; what they give up in a phase
    goes to the others in proportion to their weights there; repeated until none is above. Weights of 0 stay 0.

    Returns:
        float64[C, P] with columns summing to 1, and bool[C].

    Raises:
        ConfigError: a component is above the cap and `over_cap` is "error", or all that have weight would be.
    """
    held = np.zeros(len(names), dtype=bool)
    weights = weights.copy()
    while True:
        epochs = exposures(weights, available, phase_shares, budget_tokens)
        above = ~held & (epochs > max_epochs * (1 + _TOLERANCE))
        if not above.any():
            return weights, held
        worst = ", ".join(f"{names[i]} {epochs[i]:.2f}" for i in np.argsort(-epochs)[:5] if above[i])
        if over_cap == "error":
            raise ConfigError(
                f"epochs above max_epochs {max_epochs:g} at {budget_tokens} tokens: {worst}. Lower their weights, "
                f"raise max_epochs, or set over_cap='water_fill'"
            )
        weights[above] *= (max_epochs / epochs[above])[:, None]
        held |= above
        free = weights[~held].sum(axis=0)
        due = 1 - weights[held].sum(axis=0)
        if np.any((free <= 0) & (due > _TOLERANCE)):
            raise ConfigError(
                f"{budget_tokens} tokens cannot be had within max_epochs {max_epochs:g}: every component with weight "
                f"is at the cap ({int(available[weights.sum(axis=1) > 0].sum())} tokens an epoch). Raise max_epochs or "
                f"lower the budget"
            )
        weights[~held] *= np.divide(due, free, out=np.ones_like(due), where=free > 0)


def round_to_block(
    names: list[str],
    weights: np.ndarray,
    held: np.ndarray,
    block_sequences: int,
    max_epochs: float,
    epochs_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Rounds weights to sequences a block, by largest remainder within the cap.

    Components held at the cap are rounded down, and so is any that rounding up would take above it.

    Args:
        names: of the components.
        weights: float64[C, P].
        held: bool[C], held at the cap.
        block_sequences: what the sequences of a phase's block add up to.
        max_epochs: the cap.
        epochs_of: given int64[C, P] sequences a block and bool[C] rounded down, returns the epochs float64[C] of each.

    Returns:
        Sequences a block, int64[C, P], and bool[C], which were rounded down.

    Raises:
        ConfigError: the rest cannot take what is left without going above the cap.
    """
    down = held.copy()
    while True:
        counts = np.stack(
            [largest_remainder(column, block_sequences, ~down & (column > 0)) for column in weights.T], axis=1
        )
        above = epochs_of(counts, down) > max_epochs * (1 + _TOLERANCE)
        if not above.any():
            return counts, down
        if np.all(down[above]) or np.all(down | above | (weights.sum(axis=1) == 0)):
            raise ConfigError(
                f"weights cannot be rounded to a block of {block_sequences} sequences within max_epochs "
                f"{max_epochs:g}: {[names[i] for i in np.flatnonzero(above)]} would be above it. Raise "
                f"block_sequences or max_epochs"
            )
        down |= above


def largest_remainder(weights: np.ndarray, total: int, may_round_up: np.ndarray) -> np.ndarray:
    """Returns whole numbers that sum to `total` in proportion to `weights` (sum 1): int64[C].

    Each gets its share rounded down; what is left goes to the largest remainders (ties: the first in order) among
    `may_round_up` (bool[C]), round after round.
    """
    shares = weights * total
    counts = np.floor(shares + _TOLERANCE).astype(np.int64)
    order = [i for i in np.argsort(-(shares - counts), kind="stable").tolist() if may_round_up[i]]
    if not order and counts.sum() < total:
        order = np.flatnonzero(weights > 0).tolist()
    left = total - int(counts.sum())
    for turn in range(left):
        counts[order[turn % len(order)]] += 1
    return counts
