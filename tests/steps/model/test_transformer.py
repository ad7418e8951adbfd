"""The assembled model against NumPy, and the properties that training relies on."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from marin_exec import ConfigError
from steps.ladder.rule import rung
from steps.model.config import ModelConfig
from steps.model.counts import active_parameters, forward_flops_per_token, total_parameters, training_flops
from steps.model.mesh import device_mesh
from steps.model.parameters import initial_parameters, parameter_shapes, parameter_tree
from steps.model.transformer import hidden_states, router_bias, token_losses
from tests.steps.model import numpy_model

CONFIG = ModelConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    vocabulary_size=50,
    sequence_length=12,
    num_experts=4,
    expert_width=8,
    shared_width=8,
)


@pytest.fixture(scope="module")
def parameters():
    return initial_parameters(CONFIG, 1)


ROWS = 8  # in all tests: each new shape is compiled for seconds


def batch(seed: int = 0):
    random = np.random.default_rng(seed)
    tokens = random.integers(0, 50, (ROWS, 12)).astype(np.int32)
    segments = np.sort(random.integers(0, 3, (ROWS, 12)), axis=1).astype(np.int32)
    segments[2, 9:] = -1
    return tokens, segments


BETAS = np.random.default_rng(9).normal(size=(2, 4)).astype(np.float32) * 0.05


def forward(parameters, betas, tokens, segments, capacity):
    with jax.set_mesh(device_mesh()):
        run = jax.jit(hidden_states, static_argnames=("config", "capacity"))
        return run(parameters, betas, tokens, segments, config=CONFIG, capacity=capacity)


@pytest.mark.parametrize("capacity", [None, 36])
def test_transformer_forward_equals_numpy(parameters, capacity):
    tokens, segments = batch()
    hidden, stats = forward(parameters, BETAS, tokens, segments, capacity)
    expected, drops = numpy_model.hidden_states(parameters, BETAS, tokens, segments, CONFIG, capacity)
    difference = np.abs(np.asarray(hidden) - expected)[segments >= 0]
    assert difference.max() < 1e-4 and difference.mean() < 5e-6, (difference.max(), difference.mean())
    assert [int(each) for each in stats.dropped] == drops
    assert (sum(drops) > 0) == (capacity is not None)


def test_transformer_later_tokens_do_not_reach_earlier_ones(parameters):
    tokens, segments = batch()
    segments[:] = 0
    changed = tokens.copy()
    changed[:, 7:] = (changed[:, 7:] + 1) % 50
    a, _ = forward(parameters, BETAS, tokens, segments, None)
    b, _ = forward(parameters, BETAS, changed, segments, None)
    np.testing.assert_allclose(a[:, :7], b[:, :7], atol=1e-5)
    assert np.abs(np.asarray(a[:, 7:]) - np.asarray(b[:, 7:])).max() > 1e-2


def test_transformer_documents_of_a_row_do_not_see_each_other(parameters):
    tokens, _ = batch()
    segments = np.repeat([[0] * 5 + [1] * 7], ROWS, axis=0).astype(np.int32)
    changed = tokens.copy()
    changed[:, :5] = (changed[:, :5] + 1) % 50
    a, _ = forward(parameters, BETAS, tokens, segments, None)
    b, _ = forward(parameters, BETAS, changed, segments, None)
    np.testing.assert_allclose(a[:, 5:], b[:, 5:], atol=1e-5)


def test_transformer_padding_is_not_routed(parameters):
    tokens, segments = batch()
    _, stats = forward(parameters, BETAS, tokens, segments, None)
    np.testing.assert_array_equal(stats.counts.sum(axis=1), [2 * (segments >= 0).sum()] * 2)


def test_router_bias_is_negative_centred_threshold():
    bias = np.asarray(router_bias(jnp.asarray(BETAS)))
    np.testing.assert_allclose(bias, -(BETAS - BETAS.mean(1, keepdims=True)), atol=1e-7)


def test_quantile_thresholds_even_out_a_crowded_expert(parameters):
    random = np.random.default_rng(4)
    tokens, segments = random.integers(0, 50, (ROWS, 12)).astype(np.int32), np.zeros((ROWS, 12), np.int32)
    betas, imbalance = np.array([[-9.0, 0, 0, 0]] * 2, np.float32), []  # every token picks expert 0
    for _ in range(6):
        _, stats = forward(parameters, betas, tokens, segments, None)
        counts = np.asarray(stats.counts)
        imbalance.append(float((counts.max(1) / counts.mean(1)).max()))
        betas = np.asarray(stats.qb_beta)
    assert imbalance[0] == 2.0 and imbalance[1] < 1.5 and imbalance[-1] < 1.15, imbalance


def test_quantile_threshold_is_the_upper_quantile_of_margins(parameters):
    tokens, _ = batch()
    segments = np.zeros_like(tokens)
    _, stats = forward(parameters, BETAS, tokens, segments, None)
    layer = {name: np.asarray(value[0], np.float64) for name, value in parameters["layers"].items()}
    x = numpy_model.rms(np.asarray(parameters["token_embedding"], np.float64)[tokens], CONFIG.norm_epsilon)
    x = x + numpy_model.attend(layer, numpy_model.rms(x, CONFIG.norm_epsilon), segments, CONFIG)
    logits = numpy_model.rms(x, CONFIG.norm_epsilon).reshape(-1, 16) @ layer["router"]
    biased = logits + BETAS[0].mean() - BETAS[0]
    margins = logits - np.sort(biased, axis=1)[:, -3, None]  # the third best of top 2 is the token's threshold
    expected = np.sort(margins, axis=0)[::-1][len(margins) * 2 // 4 - 1]
    np.testing.assert_allclose(stats.qb_beta[0], expected, atol=1e-5)


def test_token_losses_equal_log_softmax(parameters):
    tokens, segments = batch()
    hidden, _ = forward(parameters, BETAS, tokens, segments, None)
    losses, log_z = jax.jit(token_losses)(parameters, hidden, tokens)
    logits = np.asarray(hidden, np.float64) @ np.asarray(parameters["lm_head"], np.float64)
    expected_z = np.log(np.exp(logits).sum(-1))
    np.testing.assert_allclose(log_z, expected_z, atol=1e-5)
    np.testing.assert_allclose(
        losses, expected_z - np.take_along_axis(logits, tokens[..., None], -1)[..., 0], atol=1e-5
    )


def test_parameter_arrays_have_their_stated_shapes(parameters):
    shapes = parameter_tree(parameter_shapes(CONFIG))
    assert jax.tree.map(lambda leaf: leaf.shape, parameters) == shapes
    assert total_parameters(CONFIG) == sum(leaf.size for leaf in jax.tree.leaves(parameters))


def test_flops_equal_a_count_by_hand():
    # d 16, 2 layers: attention 4 x 256, router 64, experts 2 x 3 x 128, shared 3 x 128 = 2,240 a layer
    assert active_parameters(CONFIG) == 2 * 2240
    # two FLOPs a parameter; scores, values and softmax over 12 positions and 2 heads of 8: 12 x 2 x (4 x 8 + 3) a layer
    assert forward_flops_per_token(CONFIG) == 2 * 4480 + 2 * 840
    assert forward_flops_per_token(CONFIG, with_lm_head=True) == 2 * 4480 + 2 * 840 + 2 * 800
    assert training_flops(CONFIG, 1000) == 3 * 1000 * (2 * 4480 + 2 * 840)


def test_flops_agree_with_the_compilers_count():
    # The compiler counts a loop's body once, and the rows of a group whether they are used or not.
    config = replace(rung(64).model, num_layers=1)
    tokens, segments = np.zeros((16, 128), np.int32), np.zeros((16, 128), np.int32)
    one_layer = initial_parameters(config, 0)
    with jax.set_mesh(device_mesh()):
        run = jax.jit(hidden_states, static_argnames=("config", "capacity"))
        lowered = run.lower(one_layer, np.zeros((1, 16), np.float32), tokens, segments, config=config, capacity=256)
        counted = lowered.compile().cost_analysis()["flops"] / tokens.size
    assert counted == pytest.approx(forward_flops_per_token(config), rel=0.25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 3}, "head width must be a whole even number"),
        ({"experts_per_token": 4}, "1 to 3 is allowed"),
        ({"capacity_factor": 0.0}, "a number above 0"),
    ],
)
def test_model_config_impossible_shape_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **change)


def test_initial_parameters_have_their_deviation_and_are_cut(parameters):
    matrices = [leaf for leaf in jax.tree.leaves(parameters) if not (leaf == 1).all()]
    values = np.concatenate([np.asarray(leaf).ravel() for leaf in matrices]) / (0.5 / 4)
    assert len(matrices) == 13 and np.abs(values).max() <= 3
    assert values.std() == pytest.approx(0.9866, abs=0.02)  # of a standard normal cut at 3
    again, other = (initial_parameters(CONFIG, seed)["lm_head"] for seed in (1, 2))
    np.testing.assert_array_equal(again, parameters["lm_head"])
    assert not (np.asarray(other) == np.asarray(again)).any()


def test_capacity_is_the_even_share_times_its_factor():
    assert CONFIG.capacity(96) == 60  # 1.25 x 96 x 2 / 4
    assert CONFIG.capacity(1) == 1
