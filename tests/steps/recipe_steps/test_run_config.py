"""What a recipe gives a training step, against what model and training make of it."""

import dataclasses

import pytest
from levanter.optim.util import NEWTON_SCHULZ_COEFFICIENTS
from levanter.utils.flop_utils import lm_flops_per_token

from steps.model.counts import active_parameters, forward_flops_per_token, total_parameters, training_flops
from steps.model.features import hero_features
from steps.model.parameters import parameter_shapes
from steps.recipe.flops import EVERY_LAYER, PUBLISHED, PUBLISHED_WITH_HEAD
from steps.recipe.flops import forward_flops_per_token as recipe_flops
from steps.recipe.hero import HERO_535B
from steps.recipe.parameters import leaves
from steps.recipe_steps.run_config import model_config, run_config
from steps.train.optimizer import group_of, learning_rates

RUNS = HERO_535B.runs
by_run = pytest.mark.parametrize("run", RUNS, ids=[run.name for run in RUNS])


def config_of(run):
    return run_config(run, tokens="/tokens", mixture="/mixture", evaluation="/evaluation")


@by_run
def test_model_has_exactly_the_recipes_parameters(run):
    """By path and shape. The router's bias is no parameter there: balancing sets it."""
    bias = run.geometry.num_layers * 384
    expected = {leaf.path: leaf.shape for leaf in leaves(run.geometry) if leaf.group != "state"}
    assert parameter_shapes(model_config(run)) == expected
    assert total_parameters(model_config(run)) == run.total_parameters - bias
    assert active_parameters(model_config(run)) == run.active_parameters


@by_run
def test_training_puts_every_parameter_in_the_recipes_group(run):
    assert {leaf.path: group_of(leaf.path) for leaf in leaves(run.geometry) if leaf.group != "state"} == {
        leaf.path: leaf.group for leaf in leaves(run.geometry) if leaf.group != "state"
    }


@by_run
def test_model_counts_the_flops_of_every_layer(run):
    model = model_config(run)
    assert forward_flops_per_token(model, with_lm_head=True) == recipe_flops(run.geometry, EVERY_LAYER)
    # Where the last layer is a fourth one, the published convention counts the same; a forecast of the large run rests on that.
    if run.name != "d2048":
        tokens = run.horizon.tokens
        assert training_flops(model, tokens) == run.flops(PUBLISHED)
        assert training_flops(model, tokens, with_lm_head=True) == run.flops(PUBLISHED_WITH_HEAD)


@pytest.mark.parametrize("convention", [PUBLISHED_WITH_HEAD, EVERY_LAYER], ids=["published", "every-layer"])
@by_run
def test_flops_are_those_of_levanters_calculator_and_the_latent_projections(run, convention):
    """It knows no latent space: experts of a fourth of the width on the whole of it cost the same. Projections are added."""
    geometry = run.geometry
    counted = {"global_every": 4} if convention is PUBLISHED_WITH_HEAD else {
        "num_full_attention_layers": len(geometry.global_layers)
    }  # fmt: skip
    theirs = lm_flops_per_token(
        hidden_dim=geometry.width, intermediate_dim=geometry.width // 4, num_layers=geometry.num_layers,
        num_kv_heads=geometry.local_kv_heads, num_heads=geometry.num_heads, seq_len=4096, vocab_size=128_256, glu=True,
        num_experts=384, num_shared_experts=2, num_experts_per_tok=8, shared_intermediate_dim=geometry.width // 2,
        sliding_window=2048, local_kv_heads=geometry.local_kv_heads, global_kv_heads=geometry.global_kv_heads, **counted,
    )  # fmt: skip
    projections = geometry.num_layers * 2 * 2 * geometry.width * (geometry.width // 2)
    assert recipe_flops(geometry, convention) == theirs + projections


@by_run
def test_model_has_the_large_runs_features_in_its_proportions(run):
    model = model_config(run)
    features = hero_features(width=model.width, num_heads=model.num_heads, sequence_length=4096, head_width=128)
    assert {name: getattr(model, name) for name in features} == features


@by_run
def test_training_has_the_recipes_rates_at_every_update(run):
    """Training numbers updates from 0 and gives the first a rate, so it is one update ahead of the recipe's count."""
    config, rates, last = config_of(run), run.rates, run.horizon.num_steps
    for update in (0, 9, rates.warmup_steps - 1, rates.warmup_steps, last // 3, last - 1):
        found = learning_rates(config.optimizer, update, last)
        assert found.hyperball == pytest.approx(rates.hyperball_at(update + 1), rel=1e-12)
        assert found.adam == pytest.approx(rates.adam_at(update + 1), rel=1e-12)
    assert (config.optimizer.beta2, config.optimizer.epsilon) == (rates.beta2, rates.epsilon)


def test_orthogonalisation_has_the_recipes_polynomials():
    rule = HERO_535B.optimizer.newton_schulz
    assert [tuple(each) for each in NEWTON_SCHULZ_COEFFICIENTS["quintic"]] == list(rule)
    assert config_of(RUNS[0]).optimizer.newton_schulz_iterations == len(rule)


@by_run
def test_training_lasts_as_long_as_the_recipe_says_and_keeps_its_checkpoints(run):
    config = config_of(run)
    assert (config.run_tokens, config.num_steps) == (run.horizon.tokens, run.horizon.num_steps)
    expected = [f"checkpoints/step-{step}" for step in run.checkpoints.steps(run.horizon.num_steps)]
    assert config.checkpoints == expected


def test_training_watches_and_leaves_out_spikes_as_the_large_run_did():
    config = run_config(HERO_535B.target_run, tokens="/t", mixture="/m", evaluation="/e", device_flops=2.5e15)
    assert config.peak_flops == 704 * 2.5e15 and config_of(RUNS[0]).peak_flops is None
    assert config.watch.every == 10 and config.spikes is not None


def test_rungs_stand_for_the_large_run_and_that_for_nothing():
    *rungs, large = (config_of(run) for run in RUNS)
    assert {rung.simulated_budget_tokens for rung in rungs} == {18_750_000_000_000}
    assert large.simulated_budget_tokens is None and large.real and not any(rung.real for rung in rungs)


@by_run
def test_dispatch_is_the_recipes_mesh(run):
    dispatch = model_config(run).dispatch
    assert dataclasses.asdict(dispatch) == {
        "num_shards": 64, "num_groups": run.mesh.racks, "sender_capacity": 1.15, "receiver_capacity": 1.15, "num_waves": 3,
    }  # fmt: skip
    assert config_of(run).batch_sequences // dispatch.source_shards == 16
