"""Whether a ladder can carry a forecast of its target: order, span, one rule for all, and laws inside their range."""

from collections.abc import Iterator

from steps.recipe.findings import Finding, finding
from steps.recipe.flops import PUBLISHED
from steps.recipe.geometry import ladder_depth
from steps.recipe.horizon import rule_steps
from steps.recipe.recipe import Recipe, Rung

FEWEST_RUNGS = 3


def ladder_order(recipe: Recipe) -> Iterator[Finding]:
    """Rungs come smallest first, and there are enough to leave one out."""
    widths = [rung.choice.width for rung in recipe.rungs]
    if widths != sorted(set(widths)):
        yield finding(
            "ladder-order", "error", stated="each rung wider than the one before", configured=str(widths),
            remark="put the rungs in order of width, each width once",
        )  # fmt: skip
    if len(widths) < FEWEST_RUNGS:
        yield finding(
            "ladder-rungs", "error", stated=f"at least {FEWEST_RUNGS} rungs", configured=str(len(widths)),
            remark="add rungs: no rung could be left out, so no forecast could be checked",
        )  # fmt: skip


def target_above_ladder(recipe: Recipe) -> Iterator[Finding]:
    """The target lies above all rungs, and not further than the rungs show their law to hold."""
    compute = [run.flops(PUBLISHED) for run in recipe.rungs]
    if not compute:
        return
    target, smallest, largest = recipe.target_run.flops(PUBLISHED), min(compute), max(compute)
    if target <= largest:
        yield finding(
            "target-above-ladder", "error", stated="the target has more FLOPs than every rung",
            configured=f"target {target:.3g}, largest rung {largest:.3g}",
            remark="inside the ladder's range nothing is forecast; enlarge the target, or leave out the rungs above it",
        )  # fmt: skip
    elif target / largest > largest / smallest:
        yield finding(
            "ladder-span", "note", stated=f"the ladder spans a factor of {largest / smallest:.0f} in FLOPs",
            configured=f"the target is a factor of {target / largest:.0f} above it",
            remark="the forecast reaches further than the ladder can show its law to hold",
        )  # fmt: skip


def one_rule(recipe: Recipe) -> Iterator[Finding]:
    """Steps and depth of every run follow the rule that the others follow."""
    for run in recipe.runs:
        by_rule = rule_steps(run.active_parameters, recipe.tokens_per_active, run.horizon.tokens_per_step)
        if run.horizon.num_steps != by_rule:
            ratio = run.horizon.tokens / run.active_parameters
            yield finding(
                "one-horizon-rule", "mismatch", run=run.name,
                stated=f"{by_rule:,} steps: {recipe.tokens_per_active} tokens for each active parameter",
                configured=f"{run.horizon.num_steps:,} steps: {ratio:.4g}",
                remark="its loss is not on the others' curve; train all by one rule, or leave it out of the fit",
            )  # fmt: skip
        depth = ladder_depth(run.choice.width)
        if run.geometry.num_layers != depth:
            yield finding(
                "one-depth-rule", "note", run=run.name, stated=f"{depth} layers by the depth rule",
                configured=f"{run.geometry.num_layers}",
                remark="shallower or deeper than the others for its width; a law over compute does not know of it",
            )  # fmt: skip


def head_groups(recipe: Recipe) -> Iterator[Finding]:
    """Query heads to a key-value head are as stated, which they are where the heads divide."""
    shape = recipe.shape
    for run in recipe.runs:
        geometry = run.geometry
        local, far = (geometry.num_heads / kv for kv in (geometry.local_kv_heads, geometry.global_kv_heads))
        if (local, far) != (shape.local_group, shape.global_group):
            yield finding(
                "head-groups", "note", run=run.name,
                stated=f"{shape.local_group} query heads to a key-value head in local layers, {shape.global_group} in global",
                configured=f"{local:.3g} and {far:.3g}",
                remark=f"{geometry.num_heads} heads do not divide; key-value heads are rounded down, to at least one",
            )  # fmt: skip


def law_range(recipe: Recipe) -> Iterator[Finding]:
    """The law of the rates was fitted at this sequence length, and to runs of this size."""
    law = recipe.optimizer.law
    if law.sequence_length not in (None, recipe.shape.sequence_length):
        yield finding(
            "law-sequence-length", "mismatch", source=law.source,
            stated=f"law {law.name} fitted at sequences of {law.sequence_length:,}",
            configured=f"{recipe.shape.sequence_length:,}",
            remark="the law knows tokens, width and batch, not the length; check the peak rate on the smallest rung",
        )  # fmt: skip
    if law.widths is None or law.tokens is None:
        yield finding(
            "law-range", "note", source=law.source, stated=f"widths and tokens that law {law.name} was fitted to",
            configured="not published", remark="whether a run is inside cannot be checked",
        )  # fmt: skip
    for run in recipe.runs:
        for what, value, bounds in (
            ("width", run.choice.width, law.widths),
            ("tokens", run.horizon.tokens, law.tokens),
        ):
            if bounds is not None and not bounds[0] <= value <= bounds[1]:
                yield finding(
                    "law-range", "mismatch", run=run.name, source=law.source,
                    stated=f"law {law.name} fitted to {what} from {bounds[0]:,.6g} to {bounds[1]:,.6g}",
                    configured=f"{value:,.6g}", remark="its rate is extrapolated; check it on a short run of this size",
                )  # fmt: skip


def rates_follow(recipe: Recipe) -> Iterator[Finding]:
    """Peak rates stay below the law's cap, and beta2 is at a bound for all runs or for none."""
    law = recipe.optimizer.law
    for run in recipe.runs:
        free = _uncapped(run)
        if law.cap is not None and free > law.cap:
            yield finding(
                "rate-cap", "mismatch", run=run.name, source=law.source, stated=f"Adam's peak rate {free:.4g} by the law",
                configured=f"{law.cap:.4g}", remark="cut at the cap: it does not follow the law that the others follow",
            )  # fmt: skip
    values = {run.name: run.rates.beta2 for run in recipe.runs}
    clipped = [name for name, value in values.items() if value in recipe.optimizer.beta2_bounds]
    free_runs = [name for name in values if name not in clipped]
    if clipped and free_runs:
        yield finding(
            "one-beta2", "note", stated=f"beta2 {values[clipped[0]]:g}, its bound, in {', '.join(clipped)}",
            configured=", ".join(f"{values[name]:.4g} in {name}" for name in free_runs),
            remark="these runs differ in more than their size",
        )  # fmt: skip


def _uncapped(run: Rung) -> float:
    law, horizon = run.recipe.optimizer.law, run.horizon
    batch = horizon.tokens_per_step if law.batch_unit == "tokens" else horizon.batch_sequences
    return law.uncapped(tokens=horizon.tokens, width=run.choice.width, batch=batch)
