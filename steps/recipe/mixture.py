"""The phases of a run's data, on whole blocks of the mixture.

A mixture is realised in blocks of so many sequences, with exact counts of each cell in every block. A phase can begin only after
a whole number of blocks, and the end of an update is the end of a block at multiples of block / gcd(block, batch) updates.

Two roundings, both as in the published runs: a phase planned as a *fraction* begins at the last boundary that is not after it; a
change decided as a *step* takes effect at the first boundary that is not before it, since what came earlier has been trained.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from steps.recipe.checks import check_at_least


@dataclass(frozen=True, kw_only=True)
class PlannedPhase:
    """A phase of every run of a recipe."""

    name: str
    start_fraction: float
    """Of the run; the first phase at 0."""
    budget_tokens: int
    """What the phase's weights and its cap on epochs were reckoned with, for the target."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "budget_tokens")


@dataclass(frozen=True, kw_only=True)
class MixtureChange:
    """A change of weights that was decided while a run was going on."""

    name: str
    step: int
    """First update with the new weights, before rounding."""

    def __post_init__(self) -> None:
        check_at_least(self, 0, "step")


@dataclass(frozen=True, kw_only=True)
class CellShare:
    """What there is of a cell of the mixture, and its weight in each planned phase."""

    name: str
    available_tokens: int
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        check_at_least(self, 1, "available_tokens")


@dataclass(frozen=True, kw_only=True)
class MixturePlan:
    """The data of a recipe."""

    block_sequences: int
    """Sequences of a mixture block, at the sequence length that the run starts with and at any other."""
    phases: tuple[PlannedPhase, ...]
    available_tokens: int
    """In all cells together."""
    max_epochs: float
    """Most often that any cell may be seen in the budgets of all phases together."""
    cells: tuple[CellShare, ...] = ()
    """Left empty where the weights are not part of the recipe."""
    simulate_below_flops: float | None = None
    """Runs with fewer FLOPs repeat their data as often as the budgets say, on a share of it; None: every run uses all data."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "block_sequences", "available_tokens")
        starts = [phase.start_fraction for phase in self.phases]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)) or not starts[-1] < 1:
            raise ValueError(f"MixturePlan.phases start at {starts}; the first at 0, each above the last, all below 1")
        for cell in self.cells:
            if len(cell.weights) != len(starts):
                raise ValueError(
                    f"MixturePlan.cells: {cell.name} has {len(cell.weights)} weights; {len(starts)} are needed, one a phase"
                )

    @property
    def budget_tokens(self) -> int:
        """Of all phases."""
        return sum(phase.budget_tokens for phase in self.phases)

    def exposures(self) -> dict[str, float]:
        """Returns how often each cell is seen in the budgets of all phases, by its name."""
        return {
            cell.name: sum(p.budget_tokens * w for p, w in zip(self.phases, cell.weights, strict=True))
            / cell.available_tokens
            for cell in self.cells
        }


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stretch of one run with one set of weights."""

    name: str
    start_step: int
    """Its first update, on a block boundary."""


def block_steps(block_sequences: int, batch_sequences: int) -> int:
    """Returns the updates between two update boundaries that are block boundaries too."""
    return block_sequences // math.gcd(block_sequences, batch_sequences)


def planned_start(fraction: float, num_steps: int, every: int) -> int:
    """Returns the last multiple of `every` that is not after a fraction of the run; the fraction counts as it is written."""
    return Fraction(repr(fraction)) * num_steps // every * every


def decided_start(step: int, every: int) -> int:
    """Returns the first multiple of `every` that is not before a step."""
    return -(-step // every) * every


def stages(
    plan: MixturePlan, changes: tuple[MixtureChange, ...], *, num_steps: int, batch_sequences: int
) -> tuple[Stage, ...]:
    """Returns the stages of a run, by their first update.

    Args:
        plan: of the recipe.
        changes: decided in this run.
        num_steps: of the run.
        batch_sequences: in an update, at the sequence length that the stages' starts are worked out for.

    Raises:
        ValueError: two stages would begin at one update, or one at the end of the run or after.
    """
    every = block_steps(plan.block_sequences, batch_sequences)
    found = [Stage(name=p.name, start_step=planned_start(p.start_fraction, num_steps, every)) for p in plan.phases]
    found += [Stage(name=change.name, start_step=decided_start(change.step, every)) for change in changes]
    found.sort(key=lambda stage: stage.start_step)
    starts = [stage.start_step for stage in found]
    if len(set(starts)) < len(starts) or starts[-1] >= num_steps:
        raise ValueError(
            f"mixture: stages would begin at {dict(zip([s.name for s in found], starts, strict=True))} of {num_steps} "
            f"updates, on multiples of {every}; each needs a start of its own before the end. Use a smaller block or fewer phases"
        )
    return tuple(found)
