"""The router against Levanter's own, of which it is the same rule laid over devices."""

import jax
import jax.numpy as jnp
import numpy as np
from levanter.grug.grug_moe import QBRoutedMoE

from steps.model.experts import ExpertWeights, GroupedExperts
from steps.model.mesh import device_mesh
from steps.model.routing import ranked_thresholds, routed, routing_statistics

T, D, E, F, K = 48, 8, 6, 4, 2
RANDOM = np.random.default_rng(0)
WEIGHTS = ExpertWeights(*(RANDOM.normal(size=s).astype(np.float32) for s in [(E, D, F), (E, D, F), (E, F, D)]))
X, ROUTER = RANDOM.normal(size=(T, D)).astype(np.float32), RANDOM.normal(size=(D, E)).astype(np.float32)
BIAS = RANDOM.normal(size=E).astype(np.float32)
VALID = RANDOM.random(T) < 0.9


def levanters(x, router):
    moe = QBRoutedMoE(num_experts_per_token=K, batch_axes=("batch",), routing_renorm_sum=2.5)
    mesh = jax.sharding.get_abstract_mesh()
    out, stats = moe(x, VALID, router=router, router_bias=BIAS, expert_mlp=GroupedExperts(WEIGHTS, 14), mesh=mesh)
    return out, {"thresholds": stats.pop("qb_beta"), "dropped": stats.pop("capacity_overflow"), **stats}


def ours(x, router):
    routing = routed(x, router, BIAS, choices=K, weight_sum=2.5)
    out, drops = GroupedExperts(WEIGHTS, 14)(x, routing.experts_TK, routing.weights_TK, token_valid=VALID)
    stats = {"thresholds": ranked_thresholds(routing, VALID), "dropped": drops.dropped}
    return out, stats | routing_statistics(routing, VALID)


def results(run):
    """Output, statistics, and gradients by tokens and router."""

    def value(x, router):
        out, stats = run(x, router)
        return jnp.sum(jnp.sin(out)), (out, stats)

    (_, (out, stats)), gradients = jax.jit(jax.value_and_grad(value, argnums=(0, 1), has_aux=True))(X, ROUTER)
    return out, stats, gradients


def test_routing_equals_levanters_router_bit_for_bit():
    with jax.set_mesh(device_mesh()):
        (out, stats, gradients), (their_out, their_stats, their_gradients) = results(ours), results(levanters)
    for a, b in ((out, their_out), *zip(gradients, their_gradients, strict=True)):
        np.testing.assert_array_equal(a, b)
    assert set(stats) <= set(their_stats) and int(stats["dropped"]) > 0
    for name, value in stats.items():
        np.testing.assert_array_equal(value, their_stats[name], err_msg=name)
