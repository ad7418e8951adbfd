"""Pooled dispatch on one device: what it drops against a simulation with lists, its gradients, its limits, its counts."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.model.dispatch.drops import drop_metrics
from steps.model.dispatch.limits import PooledDispatch
from steps.model.dispatch.packing import limit
from steps.model.dispatch.placement import placed
from steps.model.dispatch.pooled import ExpertWeights, PooledExperts
from steps.model.experts import GroupedExperts
from tests.steps.model import numpy_dispatch
from tests.steps.model.numpy_dispatch import FULL_EXPERT, FULL_POOL, SENT

T, K, E, D, F = 96, 2, 8, 6, 4
WEIGHTS = ExpertWeights(
    *(np.random.default_rng(3).normal(size=s).astype(np.float32) for s in [(E, D, F), (E, D, F), (E, F, D)])
)
DISPATCHES = {
    "two groups, tight": PooledDispatch(num_shards=2, num_groups=2, sender_capacity=0.9, receiver_capacity=0.8),
    "waves": PooledDispatch(num_shards=4, num_waves=3, sender_capacity=1.3),
    "roomy": PooledDispatch(num_shards=4, sender_capacity=4.0, receiver_capacity=8.0),
}


def routing(seed: int, skew: float):
    """x f32[T, D], distinct experts i32[T, K], combine weights f32[T, K]; a skew sends more tokens to the first expert,
    and runs of tokens alike to others, as documents do."""
    random = np.random.default_rng(seed)
    topic = np.repeat(random.normal(size=(T // 12, E)), 12, axis=0)
    logits = random.normal(size=(T, E)) + skew * (topic + (np.arange(E) == 0))
    selected = np.argsort(-logits, axis=1)[:, :K].astype(np.int32)
    return random.normal(size=(T, D)).astype(np.float32), selected, random.uniform(0.1, 1, (T, K)).astype(np.float32)


def compiled(dispatch):
    return jax.jit(lambda w, x, s, c, v: PooledExperts(w, dispatch)(x, s, c, token_valid=v))


COMPILED = {name: compiled(dispatch) for name, dispatch in DISPATCHES.items()}


@settings(max_examples=24)
@given(
    name=st.sampled_from(list(DISPATCHES)),
    seed=st.integers(0, 10_000),
    skew=st.sampled_from([0.0, 1.0, 30.0]),
    share_valid=st.sampled_from([0.0, 0.7, 1.0]),
)
def test_pooled_dispatch_drops_and_gives_what_the_simulation_does(name, seed, skew, share_valid):
    x, selected, combine = routing(seed, skew)
    valid = np.random.default_rng(seed + 1).random(T) < share_valid
    out, counts = COMPILED[name](WEIGHTS, x, selected, combine, valid)
    expected, fate = numpy_dispatch.outputs(x, selected, combine, valid, WEIGHTS, DISPATCHES[name])
    assert int(counts.sender_dropped) == (fate == FULL_POOL).sum()
    assert int(counts.receiver_dropped) == (fate == FULL_EXPERT).sum()
    assert int(counts.padding_skipped) == K * (~valid).sum()
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_simulated_cases_drop_at_both_ends():
    for name in ("two groups, tight", "waves"):
        _, selected, _ = routing(0, 1.0)
        fate = numpy_dispatch.fates(selected, np.ones(T, bool), E, DISPATCHES[name])
        assert (fate == FULL_POOL).any() and (fate == FULL_EXPERT).any() and (fate == SENT).sum() > T, name


def test_pooled_dispatch_with_room_equals_experts_that_drop_nothing():
    x, selected, combine = routing(5, 2.0)
    out, counts = COMPILED["roomy"](WEIGHTS, x, selected, combine, np.ones(T, bool))
    expected, _ = jax.jit(lambda w: GroupedExperts(w, None)(x, selected, combine, token_valid=np.ones(T, bool)))(
        WEIGHTS
    )
    assert int(counts.sender_dropped) == int(counts.receiver_dropped) == 0
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_pooled_dispatch_gradients_equal_dense_formula():
    x, selected, combine = routing(0, 1.0)
    kept = numpy_dispatch.fates(selected, np.ones(T, bool), E, DISPATCHES["waves"]) == SENT

    def pooled(w, x, combine):
        out, _ = PooledExperts(w, DISPATCHES["waves"])(x, selected, combine, token_valid=jnp.ones(T, bool))
        return jnp.sum(jnp.sin(out))

    def dense(w, x, combine):
        hidden = jax.nn.silu(jnp.einsum("td,edi->tei", x, w.gate)) * jnp.einsum("td,edi->tei", x, w.up)
        every = jnp.einsum("tei,eid->ted", hidden, w.down)
        chosen = jnp.take_along_axis(every, selected[:, :, None], axis=1)
        return jnp.sum(jnp.sin(jnp.sum(chosen * (combine * kept)[:, :, None], axis=1)))

    got = jax.jit(jax.grad(pooled, argnums=(0, 1, 2)))(WEIGHTS, x, combine)
    expected = jax.jit(jax.grad(dense, argnums=(0, 1, 2)))(WEIGHTS, x, combine)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@settings(deadline=None)
@given(valid=st.integers(0, 2**31 - 1), numerator=st.integers(1, 5000), denominator=st.integers(1, 100_000))
def test_limits_are_exact_up_to_the_largest_count(valid, numerator, denominator):
    share = Fraction(numerator, denominator)
    exact = -(-valid * share.numerator // share.denominator)
    if exact < 2**31 and share.numerator * share.denominator < 2**31:
        assert int(limit(jnp.int32(valid), share, 2**31 - 1)) == max(1, exact)


def test_receiver_takes_rows_by_place_so_that_no_shard_always_loses():
    # Every token of 4 shards wants expert 0: 6 rows each, and room for 5 in all.
    selected = np.zeros((24, 1), np.int32)
    dispatch = PooledDispatch(num_shards=4, sender_capacity=4, receiver_capacity=1.6)
    fate = numpy_dispatch.fates(selected, np.ones(24, bool), E, dispatch).reshape(4, 6)
    assert (fate == SENT).sum(axis=1).tolist() == [2, 1, 1, 1]
    out, counts = compiled(dispatch)(
        WEIGHTS, np.ones((24, D), np.float32), selected, np.ones((24, 1)), np.ones(24, bool)
    )
    assert (np.abs(out).max(axis=1).reshape(4, 6) > 0).tolist() == (fate == SENT).tolist()
    assert int(counts.receiver_dropped) == 19


def test_drop_metrics_sum_beyond_32_bits():
    sender, receiver = np.full(48, 2**31 - 1, np.int32), np.full(48, 10**9, np.int32)
    metrics = drop_metrics(sender, receiver, assignments_per_layer=2**33)
    assert metrics["moe/sender_dropped_assignments"] == 48 * (2**31 - 1)
    assert metrics["moe/dropped_assignments"] == 48 * (2**31 - 1 + 10**9)
    assert metrics["moe/drop_fraction"] == pytest.approx((2**31 - 1 + 10**9) / 2**33)
    assert metrics["moe/receiver_drop_fraction"] == pytest.approx(10**9 / 2**33)
    assert metrics["moe/receiver_drop_fraction_of_received"] == pytest.approx(10**9 / (2**33 - 2**31 + 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_experts": 6}, "6 experts over 4 shards"),
        ({"num_tokens": 98}, "a batch of 98 tokens over 1 groups of 4 shards"),
        ({"columns": 3}, "1 groups of 4 shards over 1 x 3 devices"),
        ({"racks": 8}, "1 groups of 4 shards over 8 x 1 devices"),
    ],
)
def test_placement_that_does_not_come_out_even_is_refused(change, message):
    fits = {"num_experts": 8, "num_tokens": 96, "choices": 2, "racks": 1, "columns": 1}
    with pytest.raises(ConfigError, match=message):
        placed(DISPATCHES["waves"], **fits | change)


def test_capacity_with_more_digits_than_its_limits_can_hold_is_refused():
    with pytest.raises(ConfigError, match=r"sender_capacity is 1\.123456789"):
        dispatch = PooledDispatch(num_shards=4, sender_capacity=1.123456789)
        placed(dispatch, num_experts=8, num_tokens=96, choices=2, racks=1, columns=1)


@pytest.mark.parametrize("change", [{"num_shards": 0}, {"num_waves": 0}, {"sender_capacity": 0.0}])
def test_dispatch_without_room_is_refused(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        PooledDispatch(**{"num_shards": 4} | change)


def test_batch_that_the_shards_cannot_share_is_refused_by_name():
    with pytest.raises(ConfigError, match="train: batches of 6 sequences; 1 groups of 4 shards need a multiple of 4"):
        DISPATCHES["waves"].check_batch(6, "train")
