"""Whether runs can be run as configured: mesh, capacity, cadences, warm-up; and what a FLOP figure leaves out."""

from collections.abc import Iterator

from steps.recipe.cadence import Cadence
from steps.recipe.findings import Finding, finding
from steps.recipe.flops import EVERY_LAYER, PUBLISHED_WITH_HEAD
from steps.recipe.parameters import checkpoint_bytes, leaves
from steps.recipe.recipe import Recipe

_ROUNDING = 0.01
"""Relative; a warm-up whose share of the run is further from the stated one is reported."""


def mesh_divides(recipe: Recipe) -> Iterator[Finding]:
    """Experts and sequences divide over the devices of a rack."""
    devices = recipe.rack.devices
    for what, number in (("routed experts", recipe.shape.num_experts), ("sequences of a rack", recipe.rack.sequences)):
        if number % devices:
            yield finding(
                "mesh-divides", "error", stated=f"{number:,} {what}", configured=f"{devices} devices of a rack",
                remark=f"{number % devices} are left over; the number of devices must divide them",
            )  # fmt: skip


def capacity(recipe: Recipe) -> Iterator[Finding]:
    """Pools and experts have room for the even share."""
    for what, factor in (("sender", recipe.capacity.sender), ("receiver", recipe.capacity.receiver)):
        if factor < 1:
            yield finding(
                "capacity", "error", stated=f"{what} capacity of at least 1, the even share", configured=f"{factor:g}",
                remark=f"at least {1 - factor:.0%} of assignments are dropped, however even the load is",
            )  # fmt: skip


def warmup(recipe: Recipe) -> Iterator[Finding]:
    """The warm-up has updates, and is the stated share of the run."""
    share = recipe.optimizer.warmup_share
    for run in recipe.runs:
        steps, num_steps = run.rates.warmup_steps, run.horizon.num_steps
        if steps == 0 and share > 0:
            yield finding(
                "warm-up", "error", run=run.name, stated=f"{share:.2%} of {num_steps:,} steps", configured="0 steps",
                remark="the first update has the full rate; give the run more steps, or a larger share",
            )  # fmt: skip
        elif abs(steps / num_steps - share) > _ROUNDING * share:
            yield finding(
                "warm-up", "note", run=run.name, stated=f"{share:.2%} of {num_steps:,} steps",
                configured=f"{steps} steps, {steps / num_steps:.3%}", remark="rounded down to whole updates",
            )  # fmt: skip


def cadences(recipe: Recipe) -> Iterator[Finding]:
    """Intervals divide the run; and a checkpoint that stays falls on an evaluation."""
    for run in recipe.runs:
        num_steps = run.horizon.num_steps
        for what, cadence in (("evaluations", run.evaluations), ("checkpoints", run.checkpoints)):
            if gap := cadence.last_gap(num_steps):
                yield finding(
                    f"{what}-divide", "note", run=run.name, stated=f"every {cadence.every_steps:,} of {num_steps:,} steps",
                    configured=f"the last interval has {gap:,} steps", remark="compare by share of the run done, not by count",
                )  # fmt: skip
        found = len(run.evaluations.steps(num_steps))
        if run.choice.evaluate_every_steps is None and found != recipe.ladder_evaluations:
            yield finding(
                "evaluations-number", "mismatch", run=run.name, stated=f"{recipe.ladder_evaluations} evaluations",
                configured=f"{found}: {_ends(run.evaluations, num_steps)}",
                remark="two fall on one mark of progress; take the one at the end",
            )  # fmt: skip
        if run.choice.checkpoint_every_steps and run.checkpoints.every_steps % run.evaluations.every_steps:
            yield finding(
                "checkpoint-evaluated", "note", run=run.name,
                stated=f"checkpoints every {run.checkpoints.every_steps:,} steps",
                configured=f"evaluations every {run.evaluations.every_steps:,}",
                remark="what is kept was not evaluated; make one interval a multiple of the other",
            )  # fmt: skip


def counted_layers(recipe: Recipe) -> Iterator[Finding]:
    """The published FLOP convention counts L // 4 global layers; the model's last layer is one more where that leaves a rest."""
    for run in recipe.runs:
        counted, actual = run.geometry.num_layers // recipe.shape.global_every, len(run.geometry.global_layers)
        if counted != actual:
            less = 1 - run.flops(PUBLISHED_WITH_HEAD) / run.flops(EVERY_LAYER)
            yield finding(
                "counted-global-layers", "mismatch", run=run.name, source="the launcher's FLOP figures",
                stated=f"{counted} of {run.geometry.num_layers} layers see the whole sequence", configured=f"{actual}",
                remark=f"published FLOPs are {less:.2%} low; a fit keeps the published convention for all runs or for none",
            )  # fmt: skip


def decayed_leaves(recipe: Recipe) -> Iterator[Finding]:
    """Weight decay is put on parameters that exist."""
    for run in recipe.runs:
        decayed = run.choice.decay.leaves if run.choice.decay is not None else ()
        known = {leaf.path.rsplit("/", 1)[-1] for leaf in leaves(run.geometry)}
        for leaf in sorted(set(decayed) - known):
            yield finding(
                "decayed-leaves", "error", run=run.name, stated=f"weight decay on {leaf}", configured="no such parameter",
                remark="name the last part of a parameter's path",
            )  # fmt: skip


def retention(recipe: Recipe) -> Iterator[Finding]:
    """What the checkpoints that stay take, with f32 parameters and optimiser state, is within the quota."""
    quota = recipe.storage_quota_bytes
    if quota is None:
        return
    for run in recipe.runs:
        each, number = checkpoint_bytes(run.geometry), len(run.checkpoints.steps(run.horizon.num_steps))
        if each * number > quota:
            yield finding(
                "retention", "error", run=run.name, stated=f"a quota of {quota / 2**40:,.4g} TiB",
                configured=f"{number} checkpoints that stay, {each / 2**40:.3g} TiB each in f32: {each * number / 2**40:,.4g} TiB",
                remark=f"the quota holds {quota // each}; remove or move older ones on the way",
            )  # fmt: skip


def _ends(cadence: Cadence, num_steps: int) -> str:
    return "the last at steps " + " and ".join(f"{step:,}" for step in cadence.steps(num_steps)[-2:])
