"""Whether the data of a recipe fits its runs: budgets, epochs, starts of stages, longer sequences."""

from collections.abc import Iterator

from steps.recipe.findings import Finding, finding
from steps.recipe.mixture import block_steps, decided_start
from steps.recipe.recipe import Recipe, Rung

_MOVED = 0.001
"""Share of a run; a planned phase that rounding moves further is reported."""


def mixture_budget(recipe: Recipe) -> Iterator[Finding]:
    """The budget that weights and epochs were reckoned with is what the target trains on."""
    plan, trained = recipe.mixture, recipe.target_run.horizon.tokens
    if plan.budget_tokens != trained:
        parts = " + ".join(f"{phase.budget_tokens / 1e12:g}" for phase in plan.phases)
        yield finding(
            "mixture-budget", "mismatch", run=recipe.target_run.name,
            stated=f"{plan.budget_tokens / 1e12:g}T tokens ({parts}) in the mixture", configured=f"{trained / 1e12:.5g}T trained",
            remark=f"cells are seen {trained / plan.budget_tokens:.3f} times as often as planned; the budget remains what "
            "simulated epoching of the rungs divides by",
        )  # fmt: skip
    before = 0
    for phase in plan.phases:
        share = before / plan.budget_tokens
        if abs(share - phase.start_fraction) > _MOVED:
            yield finding(
                "phase-budget", "mismatch", stated=f"{phase.name} starts at {share:.1%} by the budgets before it",
                configured=f"{phase.start_fraction:.1%}", remark="give each phase the budget of its share of the run",
            )  # fmt: skip
        before += phase.budget_tokens


def epochs(recipe: Recipe) -> Iterator[Finding]:
    """No cell is seen more often than the cap, and the weights of a phase add up to one."""
    plan = recipe.mixture
    cap = f"at most {plan.max_epochs:g} epochs"
    seen = {f"cell {name}": each for name, each in plan.exposures().items()} or {
        "all data": plan.budget_tokens / plan.available_tokens
    }
    for what, exposure in seen.items():
        if exposure > plan.max_epochs:
            yield finding(
                "epochs", "error", stated=cap, configured=f"{what}: {exposure:.2f}",
                remark="lower its weight, add data, or raise the cap knowingly",
            )  # fmt: skip
    if not plan.cells:
        return
    for number, phase in enumerate(plan.phases):
        total = sum(cell.weights[number] for cell in plan.cells)
        if abs(total - 1) > 1e-9:
            yield finding(
                "weights", "error", stated=f"weights of {phase.name} add up to 1", configured=f"{total:.12g}",
                remark="normalise them",
            )  # fmt: skip
    available = sum(cell.available_tokens for cell in plan.cells)
    if available != plan.available_tokens:
        yield finding(
            "available-tokens", "mismatch", stated=f"{plan.available_tokens:,} tokens in all",
            configured=f"{available:,} in the cells", remark="one of the two is of another version of the data",
        )  # fmt: skip


def simulated_epochs(recipe: Recipe) -> Iterator[Finding]:
    """A rung stands for the large run, which stands for itself."""
    limit = recipe.mixture.simulate_below_flops
    for run in recipe.runs:
        budget, large = run.simulated_budget_tokens, run.is_target
        if budget is not None and (large or run.horizon.tokens >= budget):
            yield finding(
                "simulated-epochs", "error", run=run.name, stated=f"data repeats as in {budget:.4g} tokens below {limit:.3g} FLOPs",
                configured=f"{run.horizon.tokens:.4g} tokens, {run.flops():.3g} FLOPs",
                remark="most of its data would be left out, though it stands for no larger run; lower the limit",
            )  # fmt: skip
        elif limit is not None and not large and budget is None:
            yield finding(
                "simulated-epochs", "mismatch", run=run.name, stated=f"data repeats in runs below {limit:.3g} FLOPs",
                configured=f"{run.flops():.3g} FLOPs",
                remark="it sees fresh data where the smaller rungs see repeats; its loss is not on their curve",
            )  # fmt: skip


def stage_starts(recipe: Recipe) -> Iterator[Finding]:
    """A stage begins where it was planned or decided, at every batch that the run may have by then."""
    block = recipe.mixture.block_sequences
    for run in recipe.runs:
        every, fractions = block_steps(block, run.horizon.batch_sequences), recipe.mixture.phases
        starts = {stage.name: stage.start_step for stage in run.stages}
        for phase in fractions:
            planned = phase.start_fraction * run.horizon.num_steps
            if planned - starts[phase.name] > _MOVED * run.horizon.num_steps:
                yield finding(
                    "stage-start", "note", run=run.name,
                    stated=f"{phase.name} at {phase.start_fraction:.0%}, step {planned:,.1f}",
                    configured=f"step {starts[phase.name]:,}",
                    remark=f"rounded down: a block of {block:,} sequences ends every {every} updates",
                )  # fmt: skip
        for batch in _batches(run):
            every = block_steps(block, batch)
            for change in (each for each in run.choice.changes if each.step % every):
                yield finding(
                    "stage-start", "mismatch", run=run.name, stated=f"{change.name} at step {change.step:,}",
                    configured=f"step {decided_start(change.step, every):,} in updates of {batch:,} sequences",
                    remark=f"rounded up: a block of {block:,} sequences ends every {every} updates",
                )  # fmt: skip


def longer_sequences(recipe: Recipe) -> Iterator[Finding]:
    """Longer sequences come in order, keep the tokens of an update, and leave every device at least one sequence."""
    run, before = recipe.target_run, 0.0
    for stage in recipe.context.stages:
        stated = f"sequences of {stage.sequence_length:,} from {stage.start_fraction:.0%} of the run on"
        if not before < stage.start_fraction < 1:
            yield finding(
                "context-order", "error", run=run.name, stated=stated, configured=f"the stage before it is at {before:.0%}",
                remark="stages come in order, after the start and before the end",
            )  # fmt: skip
        before = stage.start_fraction
        batch, rest = divmod(run.horizon.tokens_per_step, stage.sequence_length)
        if rest or batch < run.mesh.devices:
            remark = (
                "the tokens of an update cannot stay as they are; choose a length that divides them"
                if rest
                else "several devices must share a sequence, and the mesh has no axis for that"
            )
            sequences = run.horizon.tokens_per_step / stage.sequence_length
            yield finding(
                "context-batch", "error", run=run.name, stated=stated, remark=remark,
                configured=f"{sequences:,.6g} sequences an update on {run.mesh.devices} devices",
            )  # fmt: skip


def _batches(run: Rung) -> list[int]:
    """Returns the sequences of an update: at the start, and at each later length that divides it, for the target alone."""
    tokens = run.horizon.tokens_per_step
    longer = run.recipe.context.stages if run.is_target else ()
    later = [tokens // stage.sequence_length for stage in longer if tokens % stage.sequence_length == 0]
    return list(dict.fromkeys([run.horizon.batch_sequences, *later]))
