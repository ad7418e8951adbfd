"""What a recipe costs: tokens, FLOPs, bytes, days and chip hours, from stated assumptions about hardware and speed."""

from dataclasses import dataclass
from itertools import pairwise

from steps.recipe.checks import check_at_least
from steps.recipe.flops import (
    EVERY_LAYER,
    PUBLISHED,
    PUBLISHED_WITH_HEAD,
    FlopConvention,
    forward_flops_per_token,
    training_flops,
)
from steps.recipe.parameters import checkpoint_bytes
from steps.recipe.recipe import Recipe, Rung

CONVENTIONS = {"published": PUBLISHED, "published_with_head": PUBLISHED_WITH_HEAD, "every_layer": EVERY_LAYER}
"""Conventions of FLOPs by the names that a price has for them."""
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class Chip:
    """An accelerator."""

    name: str
    peak_flops: float
    """Dense, in the precision of the matrix products, a second."""
    source: str


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Utilisation from one update on."""

    from_step: int
    mfu: float
    """FLOPs of the convention over peak FLOPs, in (0, 1]."""


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What a price rests on besides the recipe.

    Raises:
        ValueError: a utilisation is not in (0, 1], a size is below 1, or the target's speeds do not begin at update 0 and rise.
    """

    chip: Chip
    target_speeds: tuple[Speed, ...]
    """Of the large run, in order."""
    ladder_mfu: float
    """Of every rung."""
    evaluation_tokens: int
    """Of all held-out sets together, at each evaluation."""
    convention: FlopConvention = PUBLISHED_WITH_HEAD
    """Of the utilisations."""
    parameter_bytes: int = 4
    """Of a parameter in a checkpoint: f32."""
    state_bytes: int = 4
    """Of a number of the optimiser's state in a checkpoint: f32."""
    token_bytes: int = 4
    """Of a token in the store: a vocabulary above 65,536 needs 32 bits."""

    def __post_init__(self) -> None:
        steps = [speed.from_step for speed in self.target_speeds]
        if not steps or steps[0] != 0 or any(b <= a for a, b in pairwise(steps)):
            raise ValueError(
                f"assumptions: target_speeds begin at updates {steps}; the first at 0, each above the last"
            )
        for mfu in (self.ladder_mfu, *(speed.mfu for speed in self.target_speeds)):
            if not 0 < mfu <= 1:
                raise ValueError(f"assumptions: a utilisation of {mfu}; a share in (0, 1] is needed, e.g. 0.25")
        check_at_least(self, 0, "evaluation_tokens")
        check_at_least(self, 1, "parameter_bytes", "state_bytes", "token_bytes")


@dataclass(frozen=True, kw_only=True)
class RunPrice:
    """The price of one run."""

    name: str
    chips: int
    num_steps: int
    tokens: int
    active_parameters: int
    total_parameters: int
    flops: dict[str, int]
    """Training FLOPs by the names of `CONVENTIONS`."""
    days: float
    """Of training, without evaluations, checkpoints and failures."""
    chip_hours: float
    tokens_per_second: float
    """On average over the run."""
    checkpoint_bytes: int
    """Parameters, optimiser state and the router's bias."""
    parameter_bytes: int
    """Parameters alone."""
    permanent_checkpoints: int
    permanent_bytes: int
    evaluations: int
    evaluation_flops: int
    """Forward passes over the held-out sets, in all, in the convention of the utilisations."""
    evaluation_share: float
    """Of the training FLOPs."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """The price of a recipe."""

    recipe: str
    runs: tuple[RunPrice, ...]
    """The ladder, then the large run."""
    ladder_share: dict[str, float]
    """FLOPs of the ladder over those of the large run, by convention."""
    ladder_chip_hours_share: float
    days: float
    """Of the rungs one after the other, and then the large run."""
    token_store_bytes: int
    """All tokens that the mixture draws from."""
    tokens_read_bytes: int
    """What the large run reads of it, repeats included."""


def price(recipe: Recipe, assumptions: Assumptions) -> Price:
    """Returns what a recipe costs."""
    runs = tuple(run_price(run, assumptions) for run in recipe.runs)
    *rungs, target = runs
    return Price(
        recipe=recipe.name,
        runs=runs,
        ladder_share={name: recipe.ladder_share(convention) for name, convention in CONVENTIONS.items()},
        ladder_chip_hours_share=sum(run.chip_hours for run in rungs) / target.chip_hours,
        days=sum(run.days for run in runs),
        token_store_bytes=recipe.mixture.available_tokens * assumptions.token_bytes,
        tokens_read_bytes=target.tokens * assumptions.token_bytes,
    )


def run_price(run: Rung, assumptions: Assumptions) -> RunPrice:
    """Returns what one run costs."""
    geometry, horizon, chips = run.geometry, run.horizon, run.mesh.devices
    seconds = _seconds(run, assumptions)
    checkpoint = checkpoint_bytes(
        geometry, parameter_bytes=assumptions.parameter_bytes, state_bytes=assumptions.state_bytes
    )
    kept = len(run.checkpoints.steps(horizon.num_steps))
    evaluations = len(run.evaluations.steps(horizon.num_steps))
    evaluation_flops = (
        evaluations * assumptions.evaluation_tokens * forward_flops_per_token(geometry, assumptions.convention)
    )
    return RunPrice(
        name=run.name,
        chips=chips,
        num_steps=horizon.num_steps,
        tokens=horizon.tokens,
        active_parameters=run.active_parameters,
        total_parameters=run.total_parameters,
        flops={name: run.flops(convention) for name, convention in CONVENTIONS.items()},
        days=seconds / _SECONDS_A_DAY,
        chip_hours=seconds / 3600 * chips,
        tokens_per_second=horizon.tokens / seconds,
        checkpoint_bytes=checkpoint,
        parameter_bytes=run.total_parameters * assumptions.parameter_bytes,
        permanent_checkpoints=kept,
        permanent_bytes=kept * checkpoint,
        evaluations=evaluations,
        evaluation_flops=evaluation_flops,
        evaluation_share=evaluation_flops / run.flops(assumptions.convention),
    )


def _seconds(run: Rung, assumptions: Assumptions) -> float:
    """Returns how long the run trains."""
    speeds = assumptions.target_speeds if run.is_target else (Speed(from_step=0, mfu=assumptions.ladder_mfu),)
    a_step = training_flops(run.geometry, run.horizon.tokens_per_step, assumptions.convention)
    peak = assumptions.chip.peak_flops * run.mesh.devices
    return sum(a_step * steps / (speed.mfu * peak) for speed, steps in _stretches(speeds, run.horizon.num_steps))


def _stretches(speeds: tuple[Speed, ...], num_steps: int) -> list[tuple[Speed, int]]:
    """Returns each speed with the updates that have it."""
    starts = [min(speed.from_step, num_steps) for speed in speeds]
    return [(speed, end - start) for speed, (start, end) in zip(speeds, pairwise([*starts, num_steps]), strict=True)]
