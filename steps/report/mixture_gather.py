"""What the page of mixture and tokens shows of a mixture: components, what got nothing, blocks, and simulated epochs."""

from typing import Any

import numpy as np

from marin_exec import StepFailed
from steps.documents import NamedInput
from steps.mix.blocks import phase_lengths
from steps.mix.mixture import TAIL, Mixture, blocks_of
from steps.mix.simulated_epochs import simulated_sizes
from steps.report.outputs import read_json, recorded_config, was_made_from
from steps.tokenize.store import TokenIndex


def check_store(mixture: Mixture, index: TokenIndex, where: str) -> None:
    """Raises StepFailed where the mixture is not for the token store."""
    if mixture.token_store != index.fingerprint:
        raise StepFailed(
            f"report: {where} is for the token store {mixture.token_store[:16]}, not for {index.fingerprint[:16]}; give the "
            f"store that it was made for"
        )


def components(mixture: Mixture) -> list[dict[str, Any]]:
    """Returns a row a component, most repeated first: its shares before and after rounding, and its epochs by budget."""
    rows = [
        {
            "name": each.name,
            "cells": list(each.cells),
            "tokens": each.tokens,
            "sequences": each.sequences,
            "weights": list(each.weights),
            "counts": list(each.counts),
            "shares": [count / mixture.block_sequences for count in each.counts],
            "epochs": list(each.exposures),
            "capped": each.name in mixture.capped,
            "rounded_down": each.name in mixture.rounded_down,
        }
        for each in mixture.components
    ]
    largest = _largest(mixture)
    return sorted(rows, key=lambda row: (-row["epochs"][largest], row["name"]))


def _largest(mixture: Mixture) -> int:
    return mixture.budgets_tokens.index(max(mixture.budgets_tokens))


def overall(mixture: Mixture, mixture_path: str, index: TokenIndex) -> dict[str, Any]:
    """Returns what holds of the whole mixture; `moved_by_rounding` is the share of each phase that rounding gave to others."""
    weights = np.array([each.weights for each in mixture.components])
    shares = np.array([each.counts for each in mixture.components]) / mixture.block_sequences
    used = sum(each.sequences * mixture.sequence_length for each in mixture.components if any(each.weights))
    in_use = {cell for each in mixture.components if any(each.weights) for cell in each.cells}
    config = recorded_config(mixture_path)
    return {
        "fingerprint": index.fingerprint,
        "sequence_length": mixture.sequence_length,
        "block_sequences": mixture.block_sequences,
        "phase_starts": list(mixture.phase_starts),
        "budgets_tokens": list(mixture.budgets_tokens),
        "largest_budget": _largest(mixture),
        "max_epochs": mixture.max_epochs,
        "moved_by_rounding": (np.abs(shares - weights).sum(axis=0) / 2).round(6).tolist(),
        "tokens": sum(cell.tokens for cell in index.cells),
        "tokens_in_sequences": used,
        "unused_cells": [cell.name for cell in index.cells if cell.name not in in_use],
        "capped": list(mixture.capped),
        "rounded_down": list(mixture.rounded_down),
        "config": {name: value for name, value in config.items() if not name.startswith("tokens")},
    }


def tail(mixture: Mixture, index: TokenIndex, min_sequences: str | None) -> list[dict[str, Any]]:
    """Returns the cells that were too small to stand alone, smallest first, and which of two reasons each has.

    Args:
        mixture: the mixture.
        index: of its token store.
        min_sequences: as the record has it; None where there is no record, and then no reason either.
    """
    members = {cell for each in mixture.components if each.name == TAIL for cell in each.cells}
    rows = []
    for cell in index.cells:
        if cell.name in members:
            sequences = max(0, cell.tokens - 1) // mixture.sequence_length
            reason = "not recorded"
            if min_sequences is not None:
                few = sequences < int(min_sequences)
                reason = f"fewer than {min_sequences} sequences" if few else "a weight below one sequence a block"
            rows.append({"cell": cell.name, "tokens": cell.tokens, "sequences": sequences, "reason": reason})
    return sorted(rows, key=lambda row: (row["tokens"], row["cell"]))


def got_zero(mixture: Mixture) -> list[dict[str, Any]]:
    """Returns every cell that has weight in a phase and no sequence of its blocks: the tail's by their own names."""
    return [
        {
            "cell": cell,
            "component": each.name,
            "phase": phase,
            "sequences_wanted": round(weight * mixture.block_sequences, 4),
        }
        for each in mixture.components
        for phase, (weight, count) in enumerate(zip(each.weights, each.counts, strict=True))
        if weight > 0 and count == 0
        for cell in each.cells
    ]


def blocks(mixture: Mixture) -> list[dict[str, Any]]:
    """Returns for each budget its sequences, and each phase's whole blocks and the sequences of its last, shorter one.

    `least` and `most` are the epochs of the components with sequences in a block; those of them that the run is too short for are
    in `not_drawn`.
    """
    rows = []
    for place, budget in enumerate(mixture.budgets_tokens):
        sequences = max(1, budget // mixture.sequence_length)
        lengths = phase_lengths(mixture.phase_starts, sequences).tolist()
        seen = [each.exposures[place] for each in mixture.components if any(each.counts)]
        drawn = blocks_of(mixture, sequences).draws
        rows.append(
            {
                "budget_tokens": budget,
                "sequences": sequences,
                "phases": [list(divmod(length, mixture.block_sequences)) for length in lengths],
                "components_drawn": int((drawn > 0).sum()),
                "not_drawn": [
                    each.name
                    for each, count in zip(mixture.components, drawn, strict=True)
                    if any(each.counts) and not count
                ],
                "least": min(seen),
                "most": max(seen),
            }
        )
    return rows


def simulated(mixture: Mixture, mixture_path: str, runs: tuple[NamedInput, ...]) -> list[dict[str, Any]]:
    """Returns of each run what it stands for, and what of the data it uses; None of a run that stands for itself.

    Raises:
        StepFailed: a run was trained on another mixture, as far as the store knows.
    """
    for run in runs:
        if was_made_from(run.path, mixture_path) is False:
            raise StepFailed(
                f"report: the run {run.name!r} ({run.path}) was not trained on the mixture {mixture_path}; name only runs that were"
            )
    sizes = np.array([each.sequences for each in mixture.components], dtype=np.int64)
    rows = []
    for run in runs:
        said = read_json(f"{run.path}/run.json")
        budget = said.get("simulated_budget_tokens")
        used = sizes if budget is None else simulated_sizes(sizes, said["tokens"], budget)
        rows.append(
            {
                "run": run.name,
                "tokens": said["tokens"],
                "stands_for_tokens": budget,
                "subset_seed": said.get("subset_seed"),
                "sequences_used": int(used.sum()),
                "sequences": int(sizes.sum()),
                "held_at_one": int(((used == 1) & (sizes > 1)).sum()),
            }
        )
    return rows
