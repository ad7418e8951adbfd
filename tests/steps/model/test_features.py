"""The hero run's features: the whole model with all of them against NumPy, values and gradients, and each of them alone."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.model.config import ModelConfig
from steps.model.features import FEATURES, hero_features, without
from steps.model.mesh import device_mesh
from steps.model.parameters import initial_parameters
from steps.model.transformer import hidden_states, token_losses
from steps.train.language_model import OptimizerConfig
from steps.train.step import initial_state, update
from tests.steps.model import numpy_model

# Three layers, of which the second and the last are global; a window that cuts; heads that do not add up to the width.
PLAIN = ModelConfig(
    width=16,
    num_layers=3,
    num_heads=4,
    attention_head_width=8,
    vocabulary_size=50,
    sequence_length=12,
    num_experts=4,
    expert_width=6,
    shared_width=8,
)
ALL = replace(PLAIN, **hero_features(width=16, num_heads=4, head_width=8, sequence_length=12))
ALL = replace(ALL, num_kv_heads=2, num_global_kv_heads=1, attention_window=4, global_every=2, gated_norm_rank=3)
ROWS = 2
BETAS = np.random.default_rng(9).normal(size=(3, 4)).astype(np.float32) * 0.05


def parameters(config: ModelConfig, seed: int = 1):
    """Random everywhere, gains, gates and taps too, and larger than at the start: nothing is at a value where it does nothing."""
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: (leaf + 0.3 * random.normal(size=leaf.shape)).astype(np.float32), initial_parameters(config, seed)
    )


def batch(seed: int = 0):
    random = np.random.default_rng(seed)
    tokens = random.integers(0, 50, (ROWS, 13)).astype(np.int32)
    segments = np.sort(random.integers(0, 3, (ROWS, 13)), axis=1).astype(np.int32)
    segments[1, 9:] = -1
    return tokens, segments


def loss(weights, betas, tokens, segments, config):
    """Mean loss of the valid positions' next tokens; with it their states f32[B, 12, D], and what the routers did."""
    hidden, stats = hidden_states(weights, betas, tokens[:, :-1], segments[:, :-1], config, capacity=None)
    losses, _ = token_losses(weights, hidden, tokens[:, 1:])
    valid = segments[:, :-1] >= 0
    return jnp.sum(losses * valid) / jnp.sum(valid), (hidden, stats)


_loss_and_gradients = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnames="config")


def run(config, weights, tokens, segments, betas=BETAS):
    with jax.set_mesh(device_mesh()):
        return _loss_and_gradients(weights, betas, tokens, segments, config=config)


def numpy_loss(weights, tokens, segments, config):
    hidden, _ = numpy_model.hidden_states(weights, BETAS, tokens[:, :-1], segments[:, :-1], config, None)
    logits = hidden @ weights["lm_head"]
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
    return losses[segments[:, :-1] >= 0].mean(), hidden


def check_against_numpy(config):
    """States and loss; gradients by differences of the NumPy model's loss along a random direction of each parameter."""
    tokens, segments = batch()
    weights = parameters(config)
    (found, (hidden, _)), gradients = run(config, weights, tokens, segments)
    exact = jax.tree.map(lambda leaf: leaf.astype(np.float64), weights)
    expected, states = numpy_loss(exact, tokens, segments, config)
    difference = np.abs(hidden - states)[segments[:, :-1] >= 0]
    assert difference.max() < 3e-5 and difference.mean() < 3e-6, (difference.max(), difference.mean())
    assert float(found) == pytest.approx(expected, abs=1e-5)
    random, step = np.random.default_rng(3), 1e-6
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        direction = random.normal(size=gradient.shape)

        def moved(along, path=path, direction=direction):
            there = jax.tree_util.tree_map_with_path(lambda p, x: x + along * direction if p == path else x, exact)
            return numpy_loss(there, tokens, segments, config)[0]

        slope, size = (moved(step) - moved(-step)) / (2 * step), float(jnp.linalg.norm(gradient))
        assert size > 1e-5, f"{path} does nothing"
        assert np.vdot(gradient, direction) == pytest.approx(slope, abs=1e-4 * size), path


def test_model_with_all_features_equals_numpy_in_values_and_gradients():
    check_against_numpy(ALL)


@settings(max_examples=15)
@given(data=st.data())
def test_a_token_reaches_only_itself_and_later_tokens_of_its_document(data):
    cuts = sorted(data.draw(st.lists(st.integers(1, 11), max_size=3, unique=True)))
    segments = np.repeat(np.searchsorted(cuts, np.arange(13), side="right")[None], ROWS, axis=0).astype(np.int32)
    check_reach(ALL, segments, data.draw(st.integers(0, 11)), seed=data.draw(st.integers(0, 100)))


def check_reach(config: ModelConfig, segments: np.ndarray, position: int, seed: int = 0) -> None:
    tokens, _ = batch(seed)
    changed = tokens.copy()
    changed[:, position] = (changed[:, position] + 1) % 50
    weights = parameters(config)
    before, after = (run(config, weights, each, segments)[0][1][0] for each in (tokens, changed))
    moved = np.abs(after - before).max(axis=(0, 2))
    reached = (np.arange(12) >= position) & (segments[0, :12] == segments[0, position])
    assert moved[~reached].max(initial=0) < 1e-5, moved
    assert moved[reached].min() > 1e-4, moved


def alone(feature: str) -> ModelConfig:
    """The plain model with one feature, and what the feature makes sense with only."""
    fields = {name: getattr(ALL, name) for name in FEATURES[feature]}
    if feature == "positionless global layers":
        fields["global_every"] = 2
    return replace(PLAIN, **fields)


TEXT = np.tile(np.random.default_rng(0).integers(0, 50, 40), 4)


def rows_of_text(steps: int):
    """Batches of rows of two documents each, from a text of 40 tokens that repeats."""
    random = np.random.default_rng(0)
    segments = np.repeat([[0] * 6 + [1] * 7], ROWS, axis=0).astype(np.int32)
    for _ in range(steps):
        yield np.stack([TEXT[start : start + 13] for start in random.integers(0, 100, ROWS)]).astype(np.int32), segments


def test_model_with_all_features_learns_by_plain_gradient_descent():
    check_descent(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_model_without_a_feature_equals_numpy_keeps_documents_apart_and_learns(feature):
    check(without(ALL, feature))


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_model_with_one_feature_alone_equals_numpy_keeps_documents_apart_and_learns(feature):
    check(alone(feature))


def check(config: ModelConfig) -> None:
    """All that one compiled function can tell of a model."""
    check_against_numpy(config)
    check_descent(config)
    for position in (0, 4, 5, 11):
        check_reach(config, np.repeat([[0] * 5 + [1] * 8], ROWS, axis=0).astype(np.int32), position)


def check_descent(config: ModelConfig) -> None:
    """Twenty steps of plain gradient descent, thresholds handed on."""
    weights, betas, losses = initial_parameters(config, 0), np.zeros((3, 4), np.float32), []
    for tokens, segments in rows_of_text(20):
        (found, (_, stats)), gradients = run(config, weights, tokens, segments, betas)
        weights = jax.tree.map(lambda w, g: w - 0.3 * np.asarray(g), weights, gradients)
        betas = np.asarray(stats.qb_beta)
        losses.append(float(found))
    check_falling(losses)


def check_falling(losses: list[float]) -> None:
    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3, losses


def check_training(config: ModelConfig) -> None:
    """Twenty updates as a run makes them."""
    groups = OptimizerConfig(learning_rate=0.05, adam_learning_rate=0.01)
    rates = np.array([0.05, 0.01, 0.0], np.float32)  # hyperball, Adam, decay
    losses = []
    with jax.set_mesh(device_mesh()):
        state = initial_state(config, groups, 0)
        for tokens, segments in rows_of_text(20):
            state, metrics, _ = update(state, tokens, segments, rates, model=config, groups=groups, z_loss=1e-4)
            losses.append(float(metrics["loss"]))
    check_falling(losses)


@pytest.mark.slow
def test_model_with_all_features_trains():
    check_training(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("feature", [*FEATURES, "balancing"])
def test_model_without_a_feature_trains(feature):
    check_training(replace(ALL, balancing="none") if feature == "balancing" else without(ALL, feature))


def test_hero_features_have_the_hero_runs_values():
    fields = hero_features(width=6144, num_heads=48, sequence_length=4096)
    assert fields["latent_width"] == 3072 and fields["attention_window"] == 2048 and fields["gated_norm_rank"] == 128
    assert (fields["num_kv_heads"], fields["num_global_kv_heads"]) == (12, 6)


@given(width=st.sampled_from([32, 48, 64, 80, 96, 112, 768]), head=st.sampled_from([8, 16]))
def test_hero_features_fit_any_width(width, head):
    shape = {"width": width, "num_heads": width // head, "sequence_length": 128}
    fields = hero_features(**shape)
    config = ModelConfig(**shape, **fields, num_layers=5, vocabulary_size=9, expert_width=4, shared_width=4)
    assert config.global_layers == (False, False, False, True, True)
    off = {name: FEATURES[each][name] for each in FEATURES for name in FEATURES[each]}
    assert {name for name in fields if name != "attention_head_width"} == set(off) - {"rotary_on_global"}
    for feature in FEATURES:
        assert without(config, feature) != config, feature


def test_without_an_unknown_feature_is_refused():
    with pytest.raises(ConfigError, match="'gates' is no feature; one of 'latent experts'"):
        without(ALL, "gates")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_kv_heads": 3}, "num_kv_heads is 3 for num_heads 4; a divisor"),
        ({"num_global_kv_heads": 3}, "num_global_kv_heads is 3"),
        ({"attention_head_width": 6}, "multiple of 4"),
        ({"rotary": "third"}, "rotary"),
        ({"balancing": "auxiliary"}, "balancing"),
        ({"latent_width": 0}, "latent_width: 0; a value at least 1"),
        ({"convolution_taps": 0}, "convolution_taps"),
    ],
)
def test_model_config_impossible_feature_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(ALL, **change)
