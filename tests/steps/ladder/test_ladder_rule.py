"""The ladder rule against the figures that it must meet."""

import pytest

from marin_exec import ConfigError
from steps.ladder.rule import HERO_WIDTH, RUNG_WIDTHS, rung
from steps.model.counts import training_flops

RUNGS = [rung(width) for width in (*RUNG_WIDTHS, HERO_WIDTH)]


def compute(*, with_lm_head: bool) -> list[int]:
    return [training_flops(spec.model, spec.tokens, with_lm_head=with_lm_head) for spec in RUNGS]


@pytest.mark.parametrize("spec", RUNGS, ids=lambda spec: spec.name)
def test_rule_rung_has_enough_updates_and_its_tokens(spec):
    d = spec.model.width
    # Written out from the geometry: attention, router, two of sixteen experts and a shared one, all of width d / 2, twice.
    active = 2 * (4 * d * d + 16 * d + 3 * 3 * d * (d // 2))
    assert spec.num_steps >= 400
    assert spec.tokens == pytest.approx(3 * (active + 2048 * d), rel=0.005)
    assert spec.model.head_width == 16 and spec.model.num_layers == 2


@pytest.mark.parametrize("with_lm_head", [False, True])
def test_rule_compute_and_batch_rise_with_width(with_lm_head):
    flops = compute(with_lm_head=with_lm_head)
    assert flops == sorted(set(flops))
    assert [spec.batch_sequences for spec in RUNGS] == sorted({spec.batch_sequences for spec in RUNGS})


@pytest.mark.parametrize("with_lm_head", [False, True])
def test_rule_hero_has_two_to_four_times_the_last_rungs_compute(with_lm_head):
    *_, last, hero = compute(with_lm_head=with_lm_head)
    assert 2 <= hero / last <= 4


def test_rule_known_rung_has_its_literal_values():
    spec = rung(64)
    assert (spec.name, spec.batch_sequences, spec.num_steps) == ("d64", 11, 432)
    assert spec.learning_rate == 0.1 and spec.adam_learning_rate == pytest.approx(0.0230769, rel=1e-5)


@pytest.mark.parametrize("width", [0, -16, 40])
def test_rule_width_off_the_head_grid_is_refused(width):
    with pytest.raises(ConfigError, match="positive multiple of 16"):
        rung(width)
