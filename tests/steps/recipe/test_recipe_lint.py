"""What the lint finds in the published run, and that each rule finds its own fault in a recipe of somebody else's."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.recipe.context import ContextStage
from steps.recipe.hero import HERO_535B
from steps.recipe.hero_statements import hero_statements
from steps.recipe.lint import RULES, counts, lint
from steps.recipe.mixture import CellShare, MixtureChange, PlannedPhase
from steps.recipe.rates import FadingDecay
from steps.recipe.recipe import RunChoice
from steps.recipe.statements import QUANTITIES, Statement

FOUND = lint(HERO_535B, hero_statements())


def rules(recipe):
    return {(finding.rule, finding.run) for finding in lint(recipe)}


def change(**fields):
    """The published recipe with fields changed; "target.x" and the like reach into its parts."""
    recipe = HERO_535B
    for name, value in fields.items():
        *parts, last = name.split("__")
        if parts:
            recipe = replace(recipe, **{parts[0]: replace(getattr(recipe, parts[0]), **{last: value})})
        else:
            recipe = replace(recipe, **{last: value})
    return recipe


def test_lint_says_which_public_figures_do_not_hold_and_which_one_decides():
    said = {(f.stated, f.configured): f.decides for f in FOUND if f.rule.startswith("stated-")}
    assert said == dict.fromkeys(
        [
            ("training steps: 390,139", "390,251"),
            ("training tokens: 18,750,000,000,000", "18,005,144,633,344"),
            ("devices: 792", "704"),
            ("ladder share of FLOPs: 0.01", "0.004214"),
            ("total parameters: 535,300,000,000", "535,477,106,688"),
            ("hyperball rate at step 10: 8.4327e-06", "8.43278e-06"),
        ],
        "configuration",
    )
    assert all(f.source and f.remark for f in FOUND)


def test_lint_all_other_public_figures_hold():
    held = [each for each in hero_statements() if each.check(HERO_535B.run(each.run)) is None]
    assert (len(hero_statements()), len(held)) == (77, 71)


def test_lint_of_the_published_recipe_finds_these_and_no_others():
    found = sorted((f.severity, f.rule, f.run) for f in lint(HERO_535B))
    assert found == sorted([
        ("error", "retention", "d6144"),
        ("mismatch", "mixture-budget", "d6144"),
        ("mismatch", "law-sequence-length", "recipe"),
        ("mismatch", "stage-start", "d6144"),
        ("mismatch", "evaluations-number", "d1536"),
        ("mismatch", "counted-global-layers", "d2048"),
        ("note", "ladder-span", "recipe"),
        ("note", "one-depth-rule", "d6144"),
        ("note", "head-groups", "d768"),
        ("note", "head-groups", "d1536"),
        ("note", "law-range", "recipe"),
        ("note", "one-beta2", "recipe"),
        ("note", "stage-start", "d768"),
        ("note", "stage-start", "d2048"),
        *(("note", "evaluations-divide", name) for name in ("d1024", "d1536", "d2048", "d6144")),
        ("note", "checkpoints-divide", "d6144"),
    ])  # fmt: skip
    assert counts(FOUND)["error"] == 1 and [f.severity for f in FOUND] == sorted(
        (f.severity for f in FOUND), key=("error", "mismatch", "note").index
    )


LADDER = HERO_535B.ladder
LATE = MixtureChange(name="new", step=5_001)
MAIN, COOLDOWN = HERO_535B.mixture.phases
CELLS = (
    CellShare(name="a", available_tokens=20_000_000_000_000, weights=(0.5, 0.5)),
    CellShare(name="b", available_tokens=3_106_103_007_622, weights=(0.5, 0.5)),
)
FAULTS = [
    ("ladder-order", "recipe", {"ladder": (LADDER[1], LADDER[0], *LADDER[2:])}),
    ("ladder-order", "recipe", {"ladder": (*LADDER, LADDER[3])}),
    ("ladder-rungs", "recipe", {"ladder": LADDER[:2]}),
    ("target-above-ladder", "recipe", {"target": replace(HERO_535B.target, width=1280, num_layers=None, changes=())}),
    ("one-horizon-rule", "d1024", {"ladder": (LADDER[0], replace(LADDER[1], num_steps=10_000), *LADDER[2:])}),
    ("one-depth-rule", "d768", {"ladder": (replace(LADDER[0], num_layers=48), *LADDER[1:])}),
    ("law-range", "d768", {"optimizer__law": replace(HERO_535B.optimizer.law, widths=(1024, 2048), tokens=(1e9, 1e13))}),
    ("law-range", "d6144", {"optimizer__law": replace(HERO_535B.optimizer.law, widths=(512, 8192), tokens=(1e9, 1e13))}),
    ("rate-cap", "d768", {"optimizer__law": replace(HERO_535B.optimizer.law, cap=0.0035)}),
    ("phase-budget", "recipe", {"mixture__phases": (MAIN, replace(COOLDOWN, start_fraction=0.9))}),
    ("epochs", "recipe", {"mixture__max_epochs": 0.5}),
    ("epochs", "recipe", {"mixture__cells": CELLS, "mixture__max_epochs": 2.0}),
    ("weights", "recipe", {"mixture__cells": (CELLS[0], replace(CELLS[1], weights=(0.5, 0.4)))}),
    ("available-tokens", "recipe", {"mixture__cells": (CELLS[0], replace(CELLS[1], available_tokens=1))}),
    ("simulated-epochs", "d6144", {"mixture__simulate_below_flops": 1e25}),
    ("simulated-epochs", "d2048", {"mixture__simulate_below_flops": 1e21}),
    ("stage-start", "d1024", {"ladder": (LADDER[0], replace(LADDER[1], changes=(LATE,)), *LADDER[2:])}),
    ("context-order", "d6144", {"context__stages": tuple(reversed(HERO_535B.context.stages))}),
    ("context-batch", "d6144", {"context__stages": (ContextStage(start_fraction=0.5, sequence_length=5000),)}),
    ("context-batch", "d6144", {"context__stages": (ContextStage(start_fraction=0.95, sequence_length=262_144),)}),
    ("mesh-divides", "recipe", {"rack__devices": 72}),
    ("capacity", "recipe", {"capacity__receiver": 0.95}),
    ("warm-up", "d768", {"optimizer__warmup_share": 0.00001}),
    ("warm-up", "d768", {"optimizer__warmup_share": 0.00051}),
    ("checkpoints-divide", "d1024", {"ladder": (LADDER[0], replace(LADDER[1], checkpoint_every_steps=7000), *LADDER[2:])}),
    ("evaluations-divide", "d768", {"ladder": (replace(LADDER[0], evaluate_every_steps=3000), *LADDER[1:])}),
    ("checkpoint-evaluated", "d6144", {"target__checkpoint_every_steps": 4000}),
    ("decayed-leaves", "d6144", {"target__decay": FadingDecay(leaves=("attn_gate",), from_step=0, weight=0.1)}),
    ("retention", "d2048", {"storage_quota_bytes": 2**37}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "run", "fields"), FAULTS, ids=[f"{n}-{fault[0]}" for n, fault in enumerate(FAULTS)])
def test_lint_finds_a_fault_that_was_put_in(rule, run, fields):
    assert (rule, run) in rules(change(**fields))
    assert (rule, run) not in rules(HERO_535B)


def small_recipe():
    """A ladder in which everything agrees, on one device a rack."""
    shape = replace(
        HERO_535B.shape, vocabulary_size=2048, sequence_length=128, window=64, head_width=16, local_group=1, global_group=1,
        global_every=1, num_experts=16, experts_per_token=2, gated_norm_rank=8,
    )  # fmt: skip
    law = replace(HERO_535B.optimizer.law, sequence_length=128, widths=(32, 256), tokens=(1e3, 1e12), cap=None)
    ladder = tuple(RunChoice(width=width, racks=1, evaluate_every_steps=1) for width in (64, 128, 192))
    phase = PlannedPhase(name="main", start_fraction=0.0, budget_tokens=1)
    mixture = replace(HERO_535B.mixture, block_sequences=1, phases=(phase,), simulate_below_flops=None)
    recipe = replace(
        HERO_535B, tokens_per_active=200, shape=shape, ladder=ladder,
        target=RunChoice(width=256, racks=1, evaluate_every_steps=1), mixture=mixture,
        rack=replace(HERO_535B.rack, devices=1, devices_installed=1, sequences=8), storage_quota_bytes=None,
        optimizer=replace(HERO_535B.optimizer, law=law), context=replace(HERO_535B.context, stages=()),
    )  # fmt: skip
    trained = recipe.target_run.horizon.tokens
    whole = replace(mixture, phases=(replace(phase, budget_tokens=trained),), available_tokens=trained)
    return replace(recipe, mixture=whole)


def test_lint_finds_nothing_where_everything_agrees():
    assert lint(small_recipe()) == []


def test_lint_every_rule_is_seen_to_find_something():
    recipes = [HERO_535B, *(change(**fields) for _, _, fields in FAULTS)]
    assert [rule.__name__ for rule in RULES if not any(list(rule(recipe)) for recipe in recipes)] == []


def test_lint_of_a_run_that_cannot_be_says_that_alone():
    short = change(ladder=(replace(LADDER[0], num_steps=40), *LADDER[1:]))
    odd = change(ladder=(replace(LADDER[0], width=700), *LADDER[1:]))
    for recipe, message in ((short, "start of its own"), (odd, "multiple of the head width 128")):
        (found,) = lint(recipe, hero_statements())
        assert found.rule == "run-cannot-be" and found.severity == "error" and message in found.configured


@given(
    width=st.integers(1, 80).map(lambda n: 128 * n),
    racks=st.integers(1, 20),
    layers=st.none() | st.integers(1, 60),
    steps=st.none() | st.integers(1, 10**6),
    every=st.none() | st.integers(1, 10**6),
    step=st.integers(0, 10**6),
    length=st.integers(1, 10**6),
    start=st.floats(-1, 2),
)
@settings(max_examples=40)
def test_lint_of_any_choice_ends_in_findings(width, racks, layers, steps, every, step, length, start):
    target = RunChoice(
        width=width, racks=racks, num_layers=layers, num_steps=steps, evaluate_every_steps=every,
        checkpoint_every_steps=every, changes=(MixtureChange(name="new", step=step),),
    )  # fmt: skip
    stages = (ContextStage(start_fraction=start, sequence_length=length),)
    found = lint(change(target=target, context__stages=stages))
    assert all(each.stated and each.configured and each.remark for each in found)
    assert [each.severity for each in found].count("error") == counts(found)["error"]


@pytest.mark.parametrize(("fields", "message"), [
    ({"target__racks": 0}, "RunChoice.racks: 0; at least 1"),
    ({"target__evaluate_every_steps": 0}, "RunChoice.evaluate_every_steps: 0"),
    ({"shape__global_every": 0}, "Shape.global_every: 0"),
    ({"rack__devices_installed": 32}, "Rack.devices_installed: 32; at least 64"),
    ({"mixture__phases": ()}, "the first at 0"),
    ({"mixture__phases": (COOLDOWN, MAIN)}, "the first at 0"),
    ({"mixture__cells": (replace(CELLS[0], weights=(1.0,)),)}, "a has 1 weights; 2 are needed"),
    ({"tokens_per_active": float("nan")}, "Recipe.tokens_per_active: nan"),
])  # fmt: skip
def test_recipe_with_a_choice_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        change(**fields)


def test_lint_of_a_statement_that_nobody_explained_says_so():
    wrong = Statement(run="d768", quantity="training steps", figure="11421", source="a slide")
    (finding,) = (f for f in lint(HERO_535B, [wrong]) if f.rule == "stated-training-steps")
    assert "not explained" in finding.remark and finding.source == "a slide" and finding.configured == "11,420"


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_statement_holds_to_the_digits_that_it_was_printed_with(quantity):
    for run in HERO_535B.runs:
        for digits in range(2, 10):
            value = float(QUANTITIES[quantity](run, 100))
            printed = f"{value:.{digits - 1}e}"
            said = Statement(run=run.name, quantity=quantity, figure=printed, source="here", at=100)
            assert said.check(run) is None
            last_digit = Decimal(1).scaleb(Decimal(printed).as_tuple().exponent)
            beyond = str(Decimal(printed) + 2 * last_digit)
            assert replace(said, figure=beyond).check(run) is not None


@pytest.mark.parametrize(("fields", "message"), [
    ({"quantity": "tokens"}, "one of active parameters"), ({"figure": "18T"}, "a number as it was printed"),
    ({"figure": "nan"}, "a number as it was printed"),
])  # fmt: skip
def test_statement_that_cannot_be_checked_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Statement(**{"run": "d768", "quantity": "layers", "figure": "8", "source": "here", **fields})


def test_statement_about_a_run_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no run is named 'd512'"):
        lint(HERO_535B, [Statement(run="d512", quantity="layers", figure="6", source="here")])
