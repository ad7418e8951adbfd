"""Grouped experts against a loop over tokens, a dense formula, and Levanter's own layers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from levanter.grug.grug_moe import moe_mlp

from steps.model.experts import ExpertWeights, GroupedExperts
from tests.steps.model.device_process import run_on_devices
from tests.steps.model.numpy_model import routed_experts

T, K, E, D, F = 96, 2, 4, 8, 6


def weights(seed: int = 0) -> ExpertWeights:
    keys = jax.random.split(jax.random.key(seed), 3)
    return ExpertWeights(
        *(jax.random.normal(k, s) * 0.5 for k, s in zip(keys, [(E, D, F), (E, D, F), (E, F, D)], strict=True))
    )


def routing(seed: int, skew: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x f32[T, D], distinct experts i32[T, K], weights f32[T, K]; a skew sends more tokens to expert 0."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(T, E)) + skew * (np.arange(E) == 0)
    selected = np.argsort(-logits, axis=1)[:, :K].astype(np.int32)
    return random.normal(size=(T, D)).astype(np.float32), selected, random.uniform(0.1, 1, (T, K)).astype(np.float32)


@jax.jit
def dropless(w, x, selected, combine, valid):
    return GroupedExperts(w, None)(x, selected, combine, token_valid=valid)


def capped(capacity: int):
    return jax.jit(lambda w, x, s, c, v: GroupedExperts(w, capacity)(x, s, c, token_valid=v))


CAPPED = {capacity: capped(capacity) for capacity in (1, 40)}


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    skew=st.sampled_from([0.0, 3.0, 50.0]),
    capacity=st.sampled_from([None, *CAPPED]),
    share_valid=st.sampled_from([0.0, 0.7, 1.0]),
)
def test_experts_any_routing_equals_loop_over_tokens(seed, skew, capacity, share_valid):
    x, selected, combine = routing(seed, skew)
    valid = np.random.default_rng(seed + 1).random(T) < share_valid
    run = dropless if capacity is None else CAPPED[capacity]
    out, counts = run(weights(), x, selected, combine, valid)
    exact = [np.asarray(each, np.float64) for each in weights()]
    expected, dropped = routed_experts(x.astype(np.float64), selected, combine, valid, *exact, capacity)
    difference = np.abs(np.asarray(out) - expected)
    assert difference.max() < 2e-5 and difference.mean() < 2e-6
    assert int(counts.receiver_dropped) == dropped and int(counts.sender_dropped) == 0
    assert int(counts.padding_skipped) == K * int((~valid).sum())


@pytest.mark.parametrize("capacity", [None, 40])
def test_experts_gradients_equal_dense_formula(capacity):
    x, selected, combine = routing(3, skew=1.0)
    load = np.zeros(E, int)
    kept = np.zeros((T, K), bool)
    for token in range(T):
        for choice, expert in enumerate(selected[token]):
            kept[token, choice] = capacity is None or load[expert] < capacity
            load[expert] += 1
    assert kept.all() == (capacity is None), "the case must drop something where there is a capacity"

    def grouped(w, x, combine):
        out, _ = GroupedExperts(w, capacity)(x, selected, combine, token_valid=jnp.ones(T, bool))
        return jnp.sum(jnp.sin(out))

    def dense(w, x, combine):
        hidden = jax.nn.silu(jnp.einsum("td,edi->tei", x, w.gate)) * jnp.einsum("td,edi->tei", x, w.up)
        every = jnp.einsum("tei,eid->ted", hidden, w.down)
        chosen = jnp.take_along_axis(every, selected[:, :, None], axis=1)
        return jnp.sum(jnp.sin(jnp.sum(chosen * (combine * kept)[:, :, None], axis=1)))

    got = jax.jit(jax.grad(grouped, argnums=(0, 1, 2)))(weights(), x, combine)
    expected = jax.jit(jax.grad(dense, argnums=(0, 1, 2)))(weights(), x, combine)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_experts_without_capacity_equal_levanters_local_layer():
    x, selected, combine = routing(5, skew=2.0)
    w = weights()
    out, _ = dropless(w, x, selected, combine, np.ones(T, bool))
    expected = moe_mlp(x, selected, combine, jnp.concatenate([w.gate, w.up], axis=-1), w.down)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


ON_DEVICES = """
    import jax, numpy as np, jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from levanter.grug.grug_moe import moe_mlp
    from tests.steps.model.test_model_experts import E, K, T, routing, weights
    mesh = jax.make_mesh((E,), ("expert",), axis_types=(AxisType.Explicit,))
    x, selected, combine = routing(7, skew=1.0)
    w = weights()
    with jax.set_mesh(mesh):
        put = lambda a: jax.device_put(a, NamedSharding(mesh, P("expert")))
        out, counts = jax.jit(lambda x, s, c, g, d: moe_mlp(
            x, s, c, g, d, implementation="ring", capacity_factor=1.0, report_capacity_overflow=True
        ))(put(x), put(selected), put(combine), put(jnp.concatenate([w.gate, w.up], -1)), put(w.down))
        np.savez(OUT + "/ring", out=np.asarray(out), dropped=int(counts.receiver_dropped))
    from steps.model.mesh import device_mesh
    from tests.steps.model.test_model_experts import CAPACITY, value_and_gradient
    with jax.set_mesh(device_mesh()):
        for name, capacity in (("capped", CAPACITY), ("dropless", None)):
            (_, dropped), gradients = value_and_gradient(capacity)(w, x, selected, combine)
            expert_gate = gradients[0].gate
            np.savez(f"{OUT}/{name}", *map(np.asarray, jax.tree.leaves(gradients)), dropped=int(dropped))
            assert len({shard.index[0].start for shard in expert_gate.addressable_shards}) == (E if capacity else 1), name
"""
CAPACITY = T * K // E


def value_and_gradient(capacity: int | None):
    """Of a sum over what experts give, and the number of drops with it; the gradients by weights, tokens and combine weights."""

    def value(w, x, selected, combine):
        out, counts = GroupedExperts(w, capacity)(x, selected, combine, token_valid=jnp.ones(T, bool))
        return jnp.sum(jnp.sin(out)), counts.receiver_dropped

    return jax.jit(jax.value_and_grad(value, argnums=(0, 1, 3), has_aux=True))


@pytest.fixture(scope="module")
def on_devices(tmp_path_factory) -> Path:
    """What a process with one device an expert saves: Levanter's ring, where capacities are a device's, and ours."""
    folder = tmp_path_factory.mktemp("devices")
    run_on_devices(ON_DEVICES, E, OUT=str(folder))
    return folder


@pytest.mark.parametrize("name", ["capped", "dropless"])
def test_experts_over_devices_drop_the_same_and_have_the_same_gradients(on_devices, name):
    x, selected, combine = routing(7, skew=1.0)
    found = np.load(on_devices / f"{name}.npz")
    (_, dropped), gradients = value_and_gradient(CAPACITY if name == "capped" else None)(
        weights(), x, selected, combine
    )
    assert int(found["dropped"]) == int(dropped) and (dropped > 0) == (name == "capped")
    for index, expected in enumerate(jax.tree.leaves(gradients)):
        np.testing.assert_allclose(found[f"arr_{index}"], expected, rtol=1e-5, atol=1e-6)


def test_experts_with_capacity_equal_levanters_expert_parallel_ring(on_devices):
    # One expert a device, so that the ring's capacity of a device is the capacity of an expert.
    ring = np.load(on_devices / "ring.npz")
    x, selected, combine = routing(7, skew=1.0)
    out, counts = capped(CAPACITY)(weights(), x, selected, combine, np.ones(T, bool))
    assert int(ring["dropped"]) == int(counts.receiver_dropped) > 0
    np.testing.assert_allclose(out, ring["out"], rtol=1e-4, atol=1e-5)
