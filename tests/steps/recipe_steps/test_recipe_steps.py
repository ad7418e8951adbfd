"""The steps that price and lint a recipe."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from directory_out import DirectoryOut

from marin_exec import Step, StepFailed
from marin_exec.identity import identify
from steps.recipe.hero import HERO_535B
from steps.recipe.hero_price import HERO_ASSUMPTIONS
from steps.recipe.hero_statements import hero_statements
from steps.recipe.statements import Statement
from steps.recipe_steps.lint import LintConfig, lint_recipe
from steps.recipe_steps.price import PriceConfig, price_recipe

KNOWN = ("retention d6144",)


def lint_config(**changes):
    return replace(LintConfig(recipe=HERO_535B, statements=hero_statements(), accepted=KNOWN), **changes)


def test_price_step_writes_every_run_and_what_the_price_rests_on(tmp_path):
    result = price_recipe(PriceConfig(recipe=HERO_535B, assumptions=HERO_ASSUMPTIONS), DirectoryOut(tmp_path))
    written = json.loads((tmp_path / "price.json").read_text())
    assert [run["name"] for run in written["runs"]] == ["d768", "d1024", "d1536", "d2048", "d6144"]
    assert written["assumptions"]["chip"]["peak_flops"] == 2.5e15
    assert written["runs"][-1]["flops"]["published"] == result.flops and f"{float(result.flops):.6g}" == "2.61089e+24"
    assert (result.tokens, result.total_parameters) == (18_005_144_633_344, 535_477_106_688)
    assert f"{result.ladder_share:.2%} {result.ladder_share_with_lm_head:.2%}" == "0.36% 0.42%"
    page = (tmp_path / "price.md").read_text()
    assert "| d6144 | 704 | 1.801e+13 | 2.696e+24 |" in page and "0.42% with it" in page


def test_lint_step_writes_findings_as_json_and_as_a_table(tmp_path):
    result = lint_recipe(lint_config(), DirectoryOut(tmp_path))
    assert (result.errors, result.statements, result.statements_that_hold) == (1, 77, 71)
    findings = json.loads((tmp_path / "lint.json").read_text())["findings"]
    assert len(findings) == result.errors + result.mismatches + result.notes
    steps = next(each for each in findings if each["rule"] == "stated-training-steps")
    assert (steps["configured"], steps["decides"]) == ("390,251", "configuration")
    table = [line for line in (tmp_path / "lint.md").read_text().splitlines() if line.startswith("|")]
    assert len(table) == len(findings) + 2 and len({line.count("|") for line in table}) == 1


def test_lint_step_stops_at_an_error_that_nobody_accepted(tmp_path):
    with pytest.raises(StepFailed, match="retention d6144: a quota of 100 TiB, but 66 checkpoints that stay"):
        lint_recipe(lint_config(accepted=()), DirectoryOut(tmp_path))
    assert not list(Path(tmp_path).iterdir())


def test_lint_step_does_not_keep_accepting_what_is_gone(tmp_path):
    with pytest.raises(StepFailed, match=r"capacity recipe.*not found any more"):
        lint_recipe(lint_config(accepted=(*KNOWN, "capacity recipe")), DirectoryOut(tmp_path))


def test_lint_step_refuses_a_statement_about_no_run(tmp_path):
    about = Statement(run="d512", quantity="layers", figure="6", source="here")
    with pytest.raises(StepFailed, match="no run is named 'd512'"):
        lint_recipe(lint_config(statements=(about,)), DirectoryOut(tmp_path))


def test_recipe_is_identity_to_its_last_rule():
    """Any change of the recipe is another step: nothing of it is left out of the digest."""

    def digest(recipe):
        step = Step("lint", lint_recipe, lint_config(recipe=recipe))
        return identify([step])[id(step)].digest

    other_law = replace(HERO_535B.optimizer, law=replace(HERO_535B.optimizer.law, r_squared=0.979))
    assert digest(HERO_535B) == digest(replace(HERO_535B))
    assert (
        len({digest(HERO_535B), digest(replace(HERO_535B, seed=1)), digest(replace(HERO_535B, optimizer=other_law))})
        == 3
    )
