"""recipe/lint: where a recipe does not agree with itself, or with what was said about its runs.

Output: `lint.json` (every finding) and `lint.md` (the same as a table). A training step that comes `after=` this one is not
started while there is an error that nobody has accepted.
"""

from dataclasses import asdict, dataclass

from marin_exec import Out, StepFailed, kind
from steps.files import write_bytes, write_json
from steps.recipe.findings import Finding
from steps.recipe.lint import counts, lint
from steps.recipe.recipe import Recipe
from steps.recipe.statements import Statement
from steps.recipe.tables import findings_table


@dataclass(frozen=True, kw_only=True)
class LintConfig:
    """A recipe, what was said about it, and which errors are known."""

    recipe: Recipe
    statements: tuple[Statement, ...] = ()
    """Figures that were given for its runs."""
    accepted: tuple[str, ...] = ()
    """Errors that were looked at and are accepted, as "rule run", e.g. "retention d6144"."""


@dataclass(frozen=True)
class LintResult:
    errors: int
    mismatches: int
    notes: int
    statements: int
    statements_that_hold: int


@kind("recipe/lint", version=1)
def lint_recipe(config: LintConfig, out: Out) -> LintResult:
    """Writes what was found.

    Raises:
        StepFailed: an error is not accepted, an accepted one is not there any more, or a statement is about no run of the recipe.
    """
    try:
        findings = lint(config.recipe, config.statements)
    except ValueError as error:
        raise StepFailed(f"lint: {error}") from error
    _check_accepted(findings, config.accepted)
    found = counts(findings)
    differ = sum(finding.rule.startswith("stated-") for finding in findings)
    write_json(out.file("lint.json"), {"recipe": config.recipe.name, "findings": [asdict(each) for each in findings]})
    write_bytes(out.file("lint.md"), f"# {config.recipe.name}\n\n{findings_table(findings)}".encode())
    return LintResult(
        errors=found["error"],
        mismatches=found["mismatch"],
        notes=found["note"],
        statements=len(config.statements),
        statements_that_hold=len(config.statements) - differ,
    )


def _check_accepted(findings: list[Finding], accepted: tuple[str, ...]) -> None:
    errors = {f"{each.rule} {each.run}": each for each in findings if each.severity == "error"}
    if new := [each for name, each in errors.items() if name not in accepted]:
        told = "; ".join(
            f"{each.rule} {each.run}: {each.stated}, but {each.configured} ({each.remark})" for each in new
        )
        raise StepFailed(f"lint: {told}. Put the recipe right, or name what is meant in LintConfig.accepted")
    if gone := sorted(set(accepted) - set(errors)):
        raise StepFailed(f"lint: LintConfig.accepted names {gone}, which is not found any more; remove it there")
