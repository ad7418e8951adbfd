"""From weights of cells to a mixture: the tail of small cells, the cap on epochs, rounding to the block."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from marin_exec import ConfigError
from steps.mix.allocation import cap_exposures, round_to_block
from steps.mix.blocks import phase_lengths, run_blocks
from steps.mix.mixture import TAIL, Component, Mixture
from steps.tokenize.store import CellEntry, TokenIndex


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What decides how weights become a mixture; the fields are those of mix/weights."""

    sequence_length: int
    budgets_tokens: tuple[int, ...]
    phase_starts: tuple[float, ...]
    block_sequences: int
    min_sequences: int
    max_epochs: float
    over_cap: Literal["error", "water_fill"]


def check_budgets(config: Any) -> None:
    """Raises ConfigError unless the `budgets_tokens` of a config name a budget, and each is at least a token."""
    if not config.budgets_tokens or min(config.budgets_tokens) < 1:
        raise ConfigError(
            f"{type(config).__name__}.budgets_tokens: {config.budgets_tokens}; give the tokens of each run that uses the "
            f"mixture"
        )


def lay_out(layout: Layout, index: TokenIndex, raw: np.ndarray) -> Mixture:
    """Returns the mixture that weights of cells come to.

    Args:
        layout: sizes and caps.
        index: of the token store, with C cells.
        raw: float64[P, C], weights of the cells in each phase; rows sum to 1.

    A component without one whole sequence, and with too little weight for one in a block, gets none: its weight goes to
    the others.

    Raises:
        ConfigError: a component is above the cap and may not or cannot be brought down, or has more weight than that and
            not one whole sequence; or a cell is called as the tail is.
    """
    groups = _components(index.cells, raw, layout)
    names = [name for name, _ in groups]
    weights = np.stack([raw[:, members].sum(axis=1) for _, members in groups])  # [component, phase]
    tokens = np.array([sum(index.cells[i].tokens for i in members) for _, members in groups], dtype=np.int64)
    sequences = np.maximum(tokens - 1, 0) // layout.sequence_length
    available = sequences * layout.sequence_length
    asked = weights
    weights = _without_crumbs(weights, sequences, layout.block_sequences)
    _check_available(names, weights, available)
    starts, cap, block = layout.phase_starts, layout.max_epochs, layout.block_sequences
    runs = [max(1, budget // layout.sequence_length) for budget in layout.budgets_tokens]  # sequences of each
    shares = phase_lengths(starts, max(runs)) / max(runs)
    budget = max(runs) * layout.sequence_length
    weights, capped = cap_exposures(names, weights, available, shares, budget, cap, layout.over_cap)

    def epochs(counts: np.ndarray, down: np.ndarray) -> np.ndarray:
        draws = np.array([run_blocks(counts, down, starts, run).draws for run in runs])  # [budget, component]
        return np.divide(draws, sequences, out=np.zeros(draws.shape), where=sequences > 0)

    counts, down = round_to_block(
        names, weights, capped, block, cap, lambda counts, down: epochs(counts, down).max(axis=0)
    )
    by_budget = epochs(counts, down).tolist()
    return Mixture(
        token_store=index.fingerprint,
        sequence_length=layout.sequence_length,
        block_sequences=block,
        phase_starts=starts,
        budgets_tokens=tuple(layout.budgets_tokens),
        max_epochs=cap,
        components=tuple(
            Component(
                name=name,
                cells=tuple(index.cells[i].name for i in members),
                tokens=int(tokens[row]),
                sequences=int(sequences[row]),
                weights=tuple(weights[row].tolist()),
                counts=tuple(counts[row].tolist()),
                exposures=tuple(each[row] for each in by_budget),
            )
            for row, (name, members) in enumerate(groups)
        ),
        capped=tuple(name for name, held in zip(names, capped, strict=True) if held),
        rounded_down=tuple(name for name, rounded in zip(names, down, strict=True) if rounded),
        rounded_to_zero=tuple(name for row, name in enumerate(names) if np.any((asked[row] > 0) & (counts[row] == 0))),
    )


def _components(cells: Sequence[CellEntry], raw: np.ndarray, layout: Layout) -> list[tuple[str, list[int]]]:
    """Names and member cells of the components: cells in order, then the tail of those too small.

    A cell is too small with fewer sequences than min_sequences, or where its weight, though not 0, gives less than
    one sequence a block. Cells without weight stand alone (they are never drawn), so that their weight stays 0.
    """
    alone, tail = [], []
    for i, cell in enumerate(cells):
        share = raw[:, i][raw[:, i] > 0] * layout.block_sequences
        small = cell.tokens < layout.min_sequences * layout.sequence_length + 1 or (share.size and share.min() < 1)
        (tail if small and share.size else alone).append(i)
    groups = [(cells[i].name, [i]) for i in alone]
    if tail and any(name == TAIL for name, _ in groups):
        raise ConfigError(
            f"a cell is called {TAIL!r}, as are the cells together that are too small; give it another name"
        )
    return [*groups, (TAIL, tail)] if tail else groups


def _without_crumbs(weights: np.ndarray, sequences: np.ndarray, block_sequences: int) -> np.ndarray:
    """Weights, float64[C, P], less those of components of which nothing could be drawn and nothing need be."""
    crumbs = (sequences == 0) & np.all(weights * block_sequences < 1, axis=1)
    left = np.where(crumbs[:, None], 0.0, weights)
    return left / left.sum(axis=0) if crumbs.any() else weights


def _check_available(names: list[str], weights: np.ndarray, available: np.ndarray) -> None:
    for name, row, tokens in zip(names, weights, available, strict=True):
        if tokens == 0 and row.sum() > 0:
            raise ConfigError(
                f"component {name} has weight but not one whole sequence; lower sequence_length, or give its cells no weight"
            )
