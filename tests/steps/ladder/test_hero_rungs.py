"""The rungs with the hero run's features, and the experiment that forecasts the run above them before it is trained."""

import runpy
import sys
from pathlib import Path

import pytest

from marin_exec.step import topological
from steps.forecast.register import RegisterConfig
from steps.ladder.rule import HERO_WIDTH, RUNG_WIDTHS, hero_rung, rung
from steps.model.counts import active_parameters, lm_head_parameters
from steps.train.language_model import TrainConfig

EXPERIMENTS = Path(__file__).resolve().parents[3] / "experiments"


@pytest.mark.parametrize("width", [*RUNG_WIDTHS, HERO_WIDTH])
def test_hero_rung_keeps_the_geometry_and_the_token_rule(width):
    spec = hero_rung(width)
    model = spec.model
    assert (model.latent_width, model.expert_width, model.shared_width) == (width // 2,) * 3
    assert (model.head_width, model.num_shared_experts, model.num_experts, model.experts_per_token) == (16, 2, 16, 2)
    assert model.attention_window == 32 == model.sequence_length // 2 and model.global_layers[-1]
    assert model.dispatch is not None and spec.batch_sequences % model.dispatch.source_shards == 0
    assert spec.num_steps >= 400
    assert spec.tokens == pytest.approx(3 * (active_parameters(model) + lm_head_parameters(model)), rel=0.005)


def test_hero_rung_differs_from_the_plain_one_only_in_what_is_named():
    plain, hero = rung(64, sequence_length=64), hero_rung(64)
    assert (hero.learning_rate, hero.adam_learning_rate) == (plain.learning_rate, plain.adam_learning_rate)
    assert hero.model.num_layers == plain.model.num_layers and hero.model.num_heads == plain.model.num_heads


@pytest.fixture(scope="module")
def steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXPERIMENTS))
        pipeline = runpy.run_path(str(EXPERIMENTS / "ladder.py"))["pipeline"]
        yield {step.name: step for step in topological(pipeline())}
        sys.modules.pop("quickstart", None)


def test_ladder_run_above_waits_for_both_forecasts_and_no_rung_does(steps):
    forecasts = {steps["ladder/forecast-joint"], steps["ladder/forecast-matched"]}
    assert set(steps["rung/d112"].after) == forecasts
    assert not any(steps[f"rung/d{width}"].after for width in RUNG_WIDTHS)


def test_ladder_rungs_differ_in_what_the_rule_decides_and_simulate_the_run_above(steps):
    def described(config: TrainConfig) -> dict:
        kept = {
            name: getattr(config, name)
            for name in ("seed", "z_loss", "evaluate_every", "evaluation_sequences", "subset_seed")
        }
        return {
            **kept,
            "mixture": config.mixture.name,
            "tokens": config.tokens.name,
            "watch": config.watch,
            "spikes": config.spikes,
        }

    above: TrainConfig = steps["rung/d112"].config
    rungs: list[TrainConfig] = [steps[f"rung/d{width}"].config for width in RUNG_WIDTHS]
    assert above.simulated_budget_tokens is None and above.evaluate_every == 0.05
    for config in rungs:
        assert config.simulated_budget_tokens == above.run_tokens > config.run_tokens
        assert described(config) == described(above)
    registered: RegisterConfig = steps["ladder/forecast-joint"].config
    assert (registered.target.num_steps, registered.target.name) == (above.num_steps, "d112")


def test_ladder_ablations_leave_out_one_thing_each(steps):
    whole: TrainConfig = steps["rung/d48"].config
    assert steps["rung/d48-no-balancing"].config.model.balancing == "none" and whole.model.balancing == "histogram"
    assert steps["rung/d48-no-z-loss"].config.z_loss == 0.0 < whole.z_loss
    assert len([name for name in steps if name.startswith("rung/")]) == len(RUNG_WIDTHS) + 3
