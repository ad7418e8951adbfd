"""Pooled dispatch over devices: the same drops as on one device for any mesh, and the same as Levanter's transport."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steps.model.config import ModelConfig
from steps.model.dispatch.limits import PooledDispatch
from steps.model.dispatch.pooled import ExpertWeights, PooledExperts
from steps.model.features import hero_features
from steps.model.mesh import device_mesh
from steps.model.parameters import initial_parameters
from steps.train.step import training_loss
from tests.steps.model.device_process import run_on_devices

T, K, E, D, F = 128, 2, 16, 8, 4
VALID = np.random.default_rng(8).random(T) < 0.9
DISPATCHES = {
    "one group": PooledDispatch(num_shards=4, num_waves=2, sender_capacity=1.1),
    "two groups": PooledDispatch(num_shards=4, num_groups=2),
    "eight shards": PooledDispatch(num_shards=8),
}
ALL_MESHES = [(1, 8), (2, 4), (4, 2), (8, 1)]  # racks x devices in each
CLOSE = 1e-5
"""Largest difference of a value or gradient, over the largest of its array, between placements of the same shards; 1e-6 seen."""

ON_DEVICES = """
    import jax, numpy as np, jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from levanter.grug.grug_moe import moe_mlp
    from steps.model.mesh import device_mesh
    from tests.steps.model.test_dispatch_devices import DISPATCHES, VALID, results, routing, weights

    for name, racks in CASES:
        with jax.set_mesh(device_mesh(racks)):
            np.savez(f"{OUT}/{name} {racks}", *results(DISPATCHES[name]))
    if LEVANTER:
        dispatch = DISPATCHES[LEVANTER]
        mesh = jax.make_mesh((dispatch.num_shards,), ("expert",), axis_types=(AxisType.Explicit,))
        x, selected, combine = routing()
        w = weights()
        with jax.set_mesh(mesh):
            put = lambda a: jax.device_put(a, NamedSharding(mesh, P("expert")))
            out, counts = jax.jit(lambda x, s, c, g, d, v: moe_mlp(
                x, s, c, g, d, token_valid=v, implementation="fixed_pooled_wave_all_to_all",
                capacity_factor=dispatch.receiver_capacity, pooled_transport_capacity_factor=dispatch.sender_capacity,
                num_expert_waves=dispatch.num_waves, report_capacity_overflow=True,
            ))(put(x), put(selected), put(combine), put(np.concatenate([w.gate, w.up], -1)), put(w.down), put(VALID))
            np.savez(f"{OUT}/levanter", np.asarray(out), int(counts.sender_dropped), int(counts.receiver_dropped))
"""


def weights() -> ExpertWeights:
    random = np.random.default_rng(3)
    return ExpertWeights(*((0.4 * random.normal(size=s)).astype(np.float32) for s in [(E, D, F), (E, D, F), (E, F, D)]))


def routing():
    random = np.random.default_rng(2)
    topics = np.repeat(random.normal(size=(T // 16, E)), 16, axis=0)
    selected = np.argsort(-(random.normal(size=(T, E)) + topics), axis=1)[:, :K].astype(np.int32)
    return random.normal(size=(T, D)).astype(np.float32), selected, random.uniform(0.1, 1, (T, K)).astype(np.float32)


def results(dispatch: PooledDispatch) -> list[np.ndarray]:
    """Output, drops of senders and receivers, and the gradients by weights, tokens and combine weights."""
    x, selected, combine = routing()

    def value(w, x, combine):
        out, counts = PooledExperts(w, dispatch)(x, selected, combine, token_valid=jnp.asarray(VALID))
        return jnp.sum(jnp.sin(out)), (out, counts.sender_dropped, counts.receiver_dropped)

    (_, given), gradients = jax.jit(jax.value_and_grad(value, argnums=(0, 1, 2), has_aux=True))(weights(), x, combine)
    return [np.asarray(each) for each in (*given, *jax.tree.leaves(gradients))]


def assert_equal_but_for_rounding(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert [int(each) for each in found[1:3]] == [int(each) for each in expected[1:3]]
    for a, b in zip(found[:1] + found[3:], expected[:1] + expected[3:], strict=True):
        assert np.abs(a - b).max() <= CLOSE * np.abs(b).max()


def saved(folder, name: str) -> list[np.ndarray]:
    with np.load(folder / f"{name}.npz") as arrays:
        return [arrays[f"arr_{i}"] for i in range(len(arrays))]


def test_pooled_dispatch_over_four_devices_equals_one_device_and_levanters_transport(tmp_path):
    cases = [("one group", 1), ("one group", 2)]  # the last: one group lies over both racks
    run_on_devices(ON_DEVICES, 4, OUT=str(tmp_path), CASES=cases, LEVANTER="one group")
    on_one = results(DISPATCHES["one group"])
    for name, racks in cases:
        assert_equal_but_for_rounding(saved(tmp_path, f"{name} {racks}"), on_one)
    out, sender, receiver = saved(tmp_path, "levanter")
    assert int(sender) == int(on_one[1]) > 0 and int(receiver) == int(on_one[2]) > 0
    np.testing.assert_allclose(on_one[0], out, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pooled_dispatch_over_eight_devices_is_the_same_for_every_mesh(tmp_path):
    cases = [("eight shards", racks) for racks, _ in ALL_MESHES] + [("two groups", racks) for racks in (2, 4)]
    run_on_devices(ON_DEVICES, 8, OUT=str(tmp_path), CASES=cases, LEVANTER="eight shards")
    for name, racks in cases:
        assert_equal_but_for_rounding(saved(tmp_path, f"{name} {racks}"), results(DISPATCHES[name]))
    on_one = results(DISPATCHES["eight shards"])
    out, sender, receiver = saved(tmp_path, "levanter")
    assert (int(sender), int(receiver)) == (int(on_one[1]), int(on_one[2]))
    np.testing.assert_allclose(on_one[0], out, rtol=1e-4, atol=1e-5)


MODEL = ModelConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    vocabulary_size=40,
    sequence_length=24,
    num_experts=8,
    expert_width=8,
    shared_width=8,
    dispatch=PooledDispatch(num_shards=8, receiver_capacity=0.6),
    **hero_features(width=16, num_heads=2, sequence_length=24),
)
MODEL_ON_DEVICES = """
    import jax, numpy as np
    from steps.model.mesh import device_mesh
    from tests.steps.model.test_dispatch_devices import of_model
    for racks in (1, 4):
        with jax.set_mesh(device_mesh(racks)):
            np.savez(f"{OUT}/{racks}", *of_model())
"""


def of_model() -> list[np.ndarray]:
    """Of the whole model: loss, drops by layer of senders and receivers, loads, thresholds, and all gradients."""
    random = np.random.default_rng(5)
    tokens = random.integers(0, 40, (8, 25)).astype(np.int32)
    segments = np.sort(random.integers(0, 3, (8, 25)), axis=1).astype(np.int32)
    segments[1, 20:] = -1
    betas = (0.05 * random.normal(size=(2, 8))).astype(np.float32)
    run = jax.jit(jax.value_and_grad(training_loss, has_aux=True), static_argnums=(4, 5))
    (loss, (_, stats, _)), gradients = run(initial_parameters(MODEL, 1), betas, tokens, segments, MODEL, 1e-4)
    given = (loss, stats.sender_dropped, stats.receiver_dropped, stats.counts, stats.qb_beta)
    return [np.asarray(each) for each in (*given, *jax.tree.leaves(gradients))]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_model_with_pools_over_eight_devices_has_the_loss_drops_and_gradients_of_one(tmp_path):
    run_on_devices(MODEL_ON_DEVICES, 8, OUT=str(tmp_path))
    with jax.set_mesh(device_mesh()):
        expected = of_model()
    assert expected[1].sum() > 0 and expected[2].sum() > 0
    for racks in (1, 4):
        found = saved(tmp_path, str(racks))
        for index, (a, b) in enumerate(zip(found, expected, strict=True)):
            if index in (1, 2, 3):
                np.testing.assert_array_equal(a, b)
            else:
                assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max() + 1e-7, (racks, index)
