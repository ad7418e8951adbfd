"""Properties of the rules: where stages begin, how rates run, what a batch is at another length."""

import ast
import dataclasses
import math
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steps.recipe.cadence import Cadence, parts
from steps.recipe.context import batch_at
from steps.recipe.hero import ADAMH_V16_LAW, HERO_535B, MAY_LAW
from steps.recipe.horizon import rule_steps
from steps.recipe.mixture import block_steps, decided_start, planned_start, stages
from steps.recipe.rates import rates
from steps.recipe.recipe import RunChoice

ROOT = Path(__file__).resolve().parents[3]


def test_recipe_imports_nothing_but_itself_and_the_standard_library():
    allowed = {"collections", "dataclasses", "decimal", "fractions", "itertools", "json", "math", "types", "typing"}
    for path in sorted((ROOT / "steps" / "recipe").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.startswith("steps.recipe") or name.split(".")[0] in allowed, f"{path} imports {name}"


@given(st.integers(1, 200_000), st.integers(1, 20_000))
@settings(deadline=None)
def test_block_steps_is_the_smallest_number_of_updates_that_ends_a_block(block, batch):
    every = block_steps(block, batch)
    assert every * batch % block == 0
    assert block % every == 0 and all(n * batch % block for n in range(1, min(every, 50)))


@given(st.floats(0, 0.999), st.integers(1, 10**6), st.integers(1, 500))
@settings(deadline=None)
def test_stage_starts_lie_on_boundaries_on_their_side_of_what_was_asked(fraction, num_steps, every):
    planned, step = planned_start(fraction, num_steps, every), int(fraction * num_steps)
    assert planned % every == 0 and planned - 1e-6 <= fraction * num_steps < planned + every + 1e-6
    decided = decided_start(step, every)
    assert decided % every == 0 and step <= decided < step + every


def test_stage_at_a_fraction_that_is_no_binary_number_is_not_a_block_too_early():
    assert 0.29 * 100 < 29
    assert planned_start(0.29, 100, 1) == 29


def test_stages_that_would_coincide_are_refused():
    with pytest.raises(ValueError, match="start of its own"):
        stages(HERO_535B.mixture, (), num_steps=40, batch_sequences=1024)


@given(st.integers(1, 60).map(lambda n: 128 * n), st.integers(1, 12), st.integers(300, 500_000))
@settings(max_examples=100)
def test_rates_rise_to_the_peak_then_fall_to_their_last_share(width, racks, num_steps):
    run = rates(
        HERO_535B.optimizer, width=width, num_steps=num_steps, batch_sequences=1024 * racks, sequence_length=4096
    )
    marks = sorted({0, 1, run.warmup_steps // 2, run.warmup_steps, num_steps // 2, num_steps - 1, num_steps})
    shares = [run.share(step) for step in marks]
    top = marks.index(run.warmup_steps)
    assert shares[: top + 1] == sorted(shares[: top + 1]) and shares[top:] == sorted(shares[top:], reverse=True)
    assert max(shares) == 1 and shares[-1] == pytest.approx(0.05)
    assert run.hyperball == pytest.approx(run.adam * 13 / 3) and run.adam <= 0.05
    assert 0.95 <= run.beta2 <= 0.9999


def test_rate_outside_the_run_is_refused():
    run = HERO_535B.run("d768").rates
    with pytest.raises(ValueError, match="0 to 11420 is allowed"):
        run.share(11_421)


def test_laws_take_the_batch_in_their_own_unit():
    """The three laws, worked out by logarithms for d1024: 128,144,375,808 tokens in updates of 2,048 sequences."""
    tokens, width = 128_144_375_808, 1024
    for law, coefficient, a, b, batch in (
        (MAY_LAW, 0.06602, -0.395, -0.150, 8_388_608),
        (ADAMH_V16_LAW, 1.63, -0.2813, -0.3678, 2048),
    ):
        expected = math.exp(math.log(coefficient) + a * math.log(tokens) + b * math.log(width) + math.log(batch) / 2)
        rule = dataclasses.replace(HERO_535B.optimizer, law=law)
        found = rates(rule, width=width, num_steps=15_276, batch_sequences=2048, sequence_length=4096)
        assert found.adam == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 10**12), st.integers(1, 10**4), st.integers(1, 10**9))
@settings(deadline=None)
def test_steps_of_the_rule_are_the_nearest_to_its_tokens(active, ratio, tokens_per_step):
    steps = rule_steps(active, ratio, tokens_per_step)
    wanted = active * ratio
    assert steps == 1 or abs(steps * tokens_per_step - wanted) * 2 <= tokens_per_step * (1 + 1e-9) + wanted * 1e-12


@given(st.integers(1, 5000), st.integers(1, 6000), st.booleans(), st.booleans())
@settings(max_examples=100)
def test_cadence_is_due_at_multiples_and_where_asked(num_steps, every, at_start, at_end):
    due = Cadence(every_steps=every, at_start=at_start, at_end=at_end).steps(num_steps)
    assert due == sorted(set(due))
    extra = {step for step, asked in ((0, at_start), (num_steps, at_end)) if asked}
    assert extra <= set(due)
    assert set(due) - extra == {n for n in range(1, num_steps + 1) if n % every == 0} - extra


def test_parts_that_do_not_divide_leave_a_shorter_last_one():
    assert parts(15_276, 20).last_gap(15_276) == 15_276 - 19 * 764
    assert parts(11_420, 20).last_gap(11_420) == 0


@given(st.sampled_from([4096, 8192, 16_384, 65_536, 262_144]))
@settings(deadline=None)
def test_batch_at_another_length_keeps_the_tokens_of_an_update(length):
    assert batch_at(46_137_344, length) * length == 46_137_344


def test_batch_at_a_length_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="do not divide"):
        batch_at(46_137_344, 3 * 4096)


def test_experts_that_do_not_divide_over_a_rack_are_refused():
    run = HERO_535B.target_run
    mesh = dataclasses.replace(run.mesh, rack=dataclasses.replace(run.mesh.rack, devices=72))
    with pytest.raises(ValueError, match="leaves 24 over"):
        mesh.experts_per_device(run.geometry)


@given(st.integers(6, 40), st.integers(6, 40), st.integers(1, 11))
@settings(max_examples=50)
def test_wider_runs_have_more_of_everything_but_rate(heads, more, racks):
    assume(heads < more)
    small, large = (
        dataclasses.replace(HERO_535B, ladder=(RunChoice(width=128 * n, racks=racks),)).rungs[0] for n in (heads, more)
    )
    assert small.active_parameters < large.active_parameters and small.flops() < large.flops()
    assert small.horizon.num_steps <= large.horizon.num_steps and small.rates.adam >= large.rates.adam


def test_run_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValueError, match="d768, d1024"):
        HERO_535B.run("d512")
