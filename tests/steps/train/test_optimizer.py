"""Optimiser groups, constant norms, directions and the schedule."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from steps.model.config import ModelConfig
from steps.model.mesh import device_mesh
from steps.model.transformer import initial_parameters
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


def test_hyperball_norms_stay_and_every_parameter_moves():
    random = np.random.default_rng(0)
    start = parameters = initial_parameters(MODEL, 0)
    transform = optimizer(GROUPS, 0.1, 0.02)
    state = jax.jit(transform.init)(parameters)

    @jax.jit
    def step(gradients, state, parameters):
        updates, state = transform.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    for _ in range(10):
        gradients = jax.tree.map(lambda p: random.normal(size=p.shape).astype(np.float32), parameters)
        parameters, state = step(gradients, state, parameters)
    for (path, before), after in zip(
        jax.tree_util.tree_leaves_with_path(start), jax.tree.leaves(parameters), strict=True
    ):
        name = path_name(path)
        matrices = (-1, *before.shape[-2:]) if group_of(name) != ADAM else (1, before.size, 1)
        norms = [
            np.linalg.norm(np.asarray(each, np.float64).reshape(matrices), axis=(1, 2)) for each in (before, after)
        ]
        moved = np.linalg.norm(np.asarray(after - before).reshape(matrices), axis=(1, 2))
        assert (moved > 1e-3 * norms[0]).all(), f"{name} did not move"
        if group_of(name) != ADAM:  # each expert's matrix for itself
            np.testing.assert_allclose(norms[1], norms[0], rtol=1e-5, err_msg=name)


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
