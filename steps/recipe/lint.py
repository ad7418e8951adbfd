"""Lints a recipe: its rules against each other, and what was said about its runs against what it gives.

Nothing is run. A recipe without errors can be run as it stands; a mismatch says which of two figures holds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from steps.recipe import lint_data, lint_ladder, lint_running
from steps.recipe.findings import Finding, finding
from steps.recipe.recipe import Recipe, Rung
from steps.recipe.statements import Statement

Rule = Callable[[Recipe], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    lint_ladder.ladder_order,
    lint_ladder.target_above_ladder,
    lint_ladder.one_rule,
    lint_ladder.head_groups,
    lint_ladder.law_range,
    lint_ladder.rates_follow,
    lint_data.mixture_budget,
    lint_data.epochs,
    lint_data.simulated_epochs,
    lint_data.stage_starts,
    lint_data.longer_sequences,
    lint_running.mesh_divides,
    lint_running.capacity,
    lint_running.warmup,
    lint_running.cadences,
    lint_running.counted_layers,
    lint_running.decayed_leaves,
    lint_running.retention,
)
_ORDER = ("error", "mismatch", "note")


def lint(recipe: Recipe, statements: Iterable[Statement] = ()) -> list[Finding]:
    """Returns all that does not agree, errors first; what was stated comes before what rules find.

    Runs that cannot be at all (a width that no head divides, a phase without an update) are the only findings where there are any.

    Raises:
        ValueError: a statement is about a run that the recipe has not.
    """
    if broken := [each for run in recipe.runs for each in _cannot_be(run)]:
        return broken
    runs = {run.name: run for run in recipe.runs}
    found: list[Finding] = []
    for statement in statements:
        run = runs.get(statement.run) or recipe.run(statement.run)  # which says what runs there are
        found += [differs] if (differs := statement.check(run)) else []
    for rule in RULES:
        found += rule(recipe)
    return sorted(found, key=lambda each: _ORDER.index(each.severity))


def _cannot_be(run: Rung) -> Iterator[Finding]:
    try:
        _ = run.geometry, run.horizon, run.rates, run.stages
    except ValueError as error:
        yield finding(
            "run-cannot-be", "error", run=run.name, stated="a run of the recipe", configured=str(error),
            remark="nothing else is checked before this is put right",
        )  # fmt: skip


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """Returns how many findings of each severity there are."""
    return {severity: sum(each.severity == severity for each in findings) for severity in _ORDER}
