"""Optimiser groups, constant norms, directions and the schedule."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from marin_exec import ConfigError, StepFailed
from steps.model.config import ModelConfig
from steps.model.mesh import device_mesh
from steps.model.parameters import initial_parameters
from steps.train.language_model import OptimizerConfig
from steps.train.optimizer import (
    ADAM,
    ADAM_H,
    MUON_H,
    group_of,
    learning_rates,
    optimizer,
    parameter_groups,
    path_name,
    scale_by_muon_h,
)
from tests.steps.model.quick_compilation import quick_compilation  # noqa: F401
from tests.steps.train import numpy_optimizer

MODEL = ModelConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    vocabulary_size=50,
    sequence_length=8,
    num_experts=4,
    expert_width=8,
    shared_width=8,
)
GROUPS = OptimizerConfig(learning_rate=0.1, adam_learning_rate=0.02)


def test_groups_every_parameter_is_in_the_one_it_belongs_to():
    shapes = initial_parameters(MODEL, 0)
    found: dict[str, set[str]] = {ADAM: set(), ADAM_H: set(), MUON_H: set()}
    for path, group in jax.tree_util.tree_leaves_with_path(parameter_groups(shapes)):
        found[group].add(path_name(path))
    assert found == {
        ADAM_H: {"lm_head"},
        ADAM: {
            "token_embedding",
            "embedding_norm",
            "final_norm",
            "layers/attention_norm",
            "layers/mlp_norm",
            "layers/router",
        },
        MUON_H: {f"layers/{name}" for name in ("w_q", "w_k", "w_v", "w_o")}
        | {f"layers/{kind}_{name}" for kind in ("expert", "shared") for name in ("gate", "up", "down")},
    }
    assert sum(map(len, found.values())) == len(jax.tree.leaves(shapes))


def test_groups_state_is_kept_for_each_group_alone():
    # A label that met no parameter would leave it without state, and it would never move (as raw arrays do in Levanter's MuonH).
    parameters = initial_parameters(MODEL, 0)
    state = jax.eval_shape(optimizer(GROUPS, 0.1, 0.02).init, parameters)
    muon = jax.tree.leaves(state.inner_states[MUON_H])
    assert sum(leaf.size for leaf in muon) == sum(
        leaf.size
        for path, leaf in jax.tree_util.tree_leaves_with_path(parameters)
        if group_of(path_name(path)) == MUON_H
    )


@pytest.mark.parametrize(
    ("leaf", "group"),
    [
        *((name, ADAM) for name in ("latent_norm", "head_gate", "conv_k", "conv_attention", "conv_mlp")),
        *((name, MUON_H) for name in ("latent_down", "latent_up", "attention_gated_norm_down", "mlp_gated_norm_up")),
        *((name, MUON_H) for name in ("embedding_gated_norm_down", "final_gated_norm_up")),
    ],
)
def test_groups_of_the_heros_parts(leaf, group):
    assert group_of(f"layers/{leaf}") == group_of(leaf) == group


@pytest.mark.parametrize("name", ["w_x", "layers/expert_bias", "lm_head_bias", "attention_gated_norm", "router_bias"])
def test_groups_unknown_parameter_is_refused_by_name(name):
    with pytest.raises(StepFailed, match=f'the parameter "{name}" is in no group'):
        group_of(name)


SHAPES = {
    "token_embedding": (7, 4),
    "lm_head": (4, 7),
    "final_norm": (4,),
    "layers": {
        "w_q": (2, 4, 4),
        "expert_gate": (2, 3, 4, 4),
        "expert_down": (2, 3, 4, 8),
        "router": (2, 4, 3),
        "head_gate": (2, 4, 2),
        "conv_k": (2, 4, 4),
    },
}


def drawn(seed: int, deviation: float = 1.0):
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: (deviation * random.normal(size=shape)).astype(np.float32),
        SHAPES,
        is_leaf=lambda each: isinstance(each, tuple),
    )


def updated(config: OptimizerConfig, parameters, gradients, num_steps: int):
    """The parameters after all updates, and the rates of each."""
    start = jax.jit(optimizer(config, 0.0, 0.0).init)(parameters)

    def step(carried, each):
        state, parameters = carried
        gradient, rates = each
        updates, state = optimizer(config, *rates).update(gradient, state, parameters)
        return (state, optax.apply_updates(parameters, updates)), None

    rates = [learning_rates(config, step, num_steps) for step in range(len(gradients))]
    table = tuple(
        np.array([getattr(each, name) for each in rates], np.float32) for name in ("hyperball", "adam", "decay")
    )
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *gradients)
    with jax.default_matmul_precision("highest"):
        (_, after), _ = jax.jit(lambda *given: jax.lax.scan(step, *given))((start, parameters), (stacked, table))
    return after, rates


@pytest.mark.parametrize(("coefficients", "norm_over"), [("quintic", "matrix"), ("simple", "layer")])
def test_groups_over_several_updates_equal_numpy(coefficients, norm_over):
    config = OptimizerConfig(
        learning_rate=0.1, adam_learning_rate=0.02, beta1=0.9062, beta2=0.97, epsilon=1e-3, momentum=0.9,
        newton_schulz_coefficients=coefficients, norm_over=norm_over, gate_router_decay=0.2,
    )  # fmt: skip
    start, gradients = drawn(0), [drawn(seed) for seed in range(1, 7)]
    after, rates = updated(config, start, gradients, num_steps=9)
    assert [each.decay for each in rates[:2]] == [0.2, pytest.approx(0.2 * 8 / 9)]
    hyperball, free = [each.hyperball for each in rates], [each.adam for each in rates]
    moments = {"beta1": 0.9062, "beta2": 0.97, "epsilon": 1e-3}
    polynomials = numpy_optimizer.QUINTIC if coefficients == "quintic" else numpy_optimizer.SIMPLE
    muon = {"momentum": 0.9, "polynomials": polynomials, "iterations": 5, "norm_over": norm_over}
    given = [dict(jax.tree_util.tree_leaves_with_path(each)) for each in gradients]
    for (path, weight), found in zip(jax.tree_util.tree_leaves_with_path(start), jax.tree.leaves(after), strict=True):
        name, mine = path_name(path), [each[path] for each in given]
        if group_of(name) == MUON_H:
            expected = numpy_optimizer.muon_h(weight, mine, hyperball, **muon)
        elif group_of(name) == ADAM_H:
            expected = numpy_optimizer.adam_h(weight, mine, hyperball, **moments)
        else:
            decays = [each.decay if name in ("layers/router", "layers/head_gate") else 0.0 for each in rates]
            expected = numpy_optimizer.adam(weight, mine, free, decays, **moments)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("norm_over", ["matrix", "layer"])
def test_hyperball_norms_stay_over_200_updates_and_every_parameter_moves(norm_over):
    config = OptimizerConfig(learning_rate=0.1, adam_learning_rate=0.02, norm_over=norm_over)
    start = drawn(0, deviation=0.1)
    after, _ = updated(config, start, [drawn(seed) for seed in range(1, 201)], num_steps=200)
    for (path, before), now in zip(jax.tree_util.tree_leaves_with_path(start), jax.tree.leaves(after), strict=True):
        name = path_name(path)
        of_one = before.ndim - 2 if norm_over == "matrix" or before.ndim == 2 else 1
        axes = tuple(range(of_one if group_of(name) != ADAM else 0, before.ndim))
        norms = [
            np.linalg.norm(np.asarray(each, np.float64).reshape(*each.shape[: axes[0]], -1), axis=-1)
            for each in (before, now)
        ]
        moved = np.linalg.norm(np.asarray(now - before, np.float64).reshape(*before.shape[: axes[0]], -1), axis=-1)
        assert (moved > 1e-2 * norms[0]).all(), f"{name} did not move"
        if group_of(name) != ADAM:
            np.testing.assert_allclose(norms[1], norms[0], rtol=2e-5, err_msg=name)
        if name == "layers/expert_gate":  # of one expert alone the norm stays only where each keeps its own
            each_expert = [np.linalg.norm(np.asarray(w, np.float64), axis=(-2, -1)) for w in (before, now)]
            assert np.allclose(*each_expert, rtol=1e-3) == (norm_over == "matrix")


def test_muon_h_step_is_along_the_orthogonal_factor():
    random = np.random.default_rng(1)
    weight, gradient = (random.normal(size=(2, 3, 12, 8)).astype(np.float32) for _ in range(2))
    transform = scale_by_muon_h(0.05, 0.95, 5)
    with jax.set_mesh(device_mesh()):
        updates, state = jax.jit(transform.update)({"w": gradient}, transform.init({"w": weight}), {"w": weight})
    np.testing.assert_allclose(state.momentum["w"], gradient)
    for index in np.ndindex(2, 3):
        u, _, vt = np.linalg.svd(gradient[index].astype(np.float64), full_matrices=False)
        direction = u @ vt
        ideal = weight[index] - 0.05 * direction * np.linalg.norm(weight[index]) / np.linalg.norm(direction)
        ideal *= np.linalg.norm(weight[index]) / np.linalg.norm(ideal)
        step, expected = np.asarray(updates["w"])[index], ideal - weight[index]
        cosine = (step * expected).sum() / np.linalg.norm(step) / np.linalg.norm(expected)
        assert cosine > 0.97, cosine  # five Newton-Schulz iterations bring singular values near one, not to it


def test_muon_h_matrix_without_gradient_stays():
    weight = np.random.default_rng(2).normal(size=(3, 6, 4)).astype(np.float32)
    gradient = np.ones_like(weight)
    gradient[1] = 0
    transform = scale_by_muon_h(0.1, 0.95, 5)
    updates, _ = transform.update({"w": gradient}, transform.init({"w": weight}), {"w": weight})
    assert np.abs(updates["w"][1]).max() < 1e-6 and np.abs(updates["w"][0]).max() > 1e-3


def test_adam_h_first_step_equals_its_closed_form():
    random = np.random.default_rng(3)
    weight, gradient = (random.normal(size=(16, 50)).astype(np.float32) for _ in range(2))
    transform = optimizer(GROUPS, 0.1, 0.02)
    parameters = {"lm_head": jnp.asarray(weight)}
    updates, _ = transform.update({"lm_head": gradient}, transform.init(parameters), parameters)
    direction = np.sign(gradient)  # the bias-corrected first Adam direction
    scale = 0.1 * np.linalg.norm(weight) / np.linalg.norm(direction)
    squared = np.linalg.norm(weight) ** 2 - 2 * scale * (weight * direction).sum() + scale**2 * (direction**2).sum()
    expected = (weight - scale * direction) * np.linalg.norm(weight) / np.sqrt(squared)
    np.testing.assert_allclose(weight + np.asarray(updates["lm_head"]), expected, atol=2e-5)


def test_schedule_agrees_with_the_hero_runs_logged_rates():
    # Logged by the hero run: 8.4327e-6 at update 10 and 0.0028526 at update 58,020 of 390,251, 3,902 of them warm-up.
    config = OptimizerConfig(learning_rate=8.4327e-6 * 3902 / 10, adam_learning_rate=1.0)
    assert learning_rates(config, 9, 390_251).hyperball == pytest.approx(8.4327e-6, rel=1e-9)
    assert learning_rates(config, 58_019, 390_251).hyperball == pytest.approx(0.0028526, rel=3e-5)


@pytest.mark.parametrize("num_steps", [1, 2, 37, 400])
def test_schedule_peaks_once_and_ends_at_its_final_share(num_steps):
    config = OptimizerConfig(learning_rate=2.0, adam_learning_rate=1.0, warmup_fraction=0.1)
    rates = [learning_rates(config, step, num_steps).hyperball for step in range(num_steps)]
    peak = rates.index(max(rates))
    assert rates[peak] == 2.0 and rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True) and min(rates) > 0
    if num_steps > 1:
        assert rates[-1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"newton_schulz_coefficients": "cubic"}, "newton_schulz_coefficients: 'cubic'; one of 'quintic', 'simple'"),
        ({"norm_over": "expert"}, "norm_over: 'expert'; one of 'matrix', 'layer'"),
        ({"gate_router_decay": -0.1}, "gate_router_decay: -0.1; a value at least 0"),
    ],
)
def test_optimizer_config_impossible_value_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        OptimizerConfig(learning_rate=0.1, adam_learning_rate=0.02, **change)
