"""The router: which experts a token is sent to, with which weights, and how far each expert was from being chosen.

The rule is that of Levanter's `QBRoutedMoE` (`levanter.grug.grug_moe`), whose statistics and rank estimate are used as they
are; a test holds that bits and gradients are equal. It stands here for one reason: each device chooses for its own tokens,
where the compiler by itself may gather every token's logits on every device to sort them.

Shape letters: T tokens, D width, E experts, K choices.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from levanter.grug.grug_moe import estimate_qb_beta_topk, moe_routing_stats

from steps.model.mesh import on_own_rows


class Routing(NamedTuple):
    """What the router decided for each token."""

    logits_TE: jax.Array  # f32[T, E]
    experts_TK: jax.Array  # i32[T, K], best first, distinct within a token
    weights_TK: jax.Array  # f32[T, K]
    margins_TE: jax.Array  # f32[T, E]: logit less the token's threshold, the biased logit of the best expert not chosen


def routed(x_TD: jax.Array, router_DE: jax.Array, bias_E: jax.Array, *, choices: int, weight_sum: float) -> Routing:
    """Chooses each token's experts by biased logits and weighs them by the sigmoid of their unbiased ones.

    Args:
        x_TD: f32[T, D].
        router_DE: f32[D, E].
        bias_E: f32[E]; no gradient reaches it.
        choices: experts of a token.
        weight_sum: what a token's weights add up to.
    """

    def choose(router: tuple[jax.Array, jax.Array], x_TD: jax.Array) -> Routing:
        router_DE, bias_E = router
        logits_TE = jnp.einsum("td,de->te", x_TD, router_DE).astype(jnp.float32)
        best_TK1, experts_TK1 = jax.lax.top_k(logits_TE + jax.lax.stop_gradient(bias_E), choices + 1)
        experts_TK = experts_TK1[:, :-1]
        weights_TK = jax.nn.sigmoid(jnp.take_along_axis(logits_TE, experts_TK, axis=-1))
        # As in Levanter: the rounding of the sigmoid is the same whatever the division is fused with.
        weights_TK = jax.lax.optimization_barrier(weights_TK)
        weights_TK *= weight_sum / (jnp.sum(weights_TK, axis=-1, keepdims=True) + 1e-9)
        margins_TE = jax.lax.stop_gradient(logits_TE - best_TK1[:, -1:])
        return Routing(logits_TE, experts_TK.astype(jnp.int32), weights_TK.astype(x_TD.dtype), margins_TE)

    return on_own_rows(choose, (router_DE, bias_E), x_TD)


def routing_statistics(routing: Routing, valid_T: jax.Array) -> dict[str, jax.Array]:
    """Returns Levanter's routing statistics of the valid tokens: `routing_counts` f32[E], `routing_entropy`,
    `load_balancing_loss` and `router_z_loss`, f32[] each."""
    return moe_routing_stats(
        routing.experts_TK,
        jax.nn.softmax(routing.logits_TE, axis=-1),
        routing.logits_TE,
        valid_T,
        num_experts=routing.logits_TE.shape[1],
        num_experts_per_token=routing.experts_TK.shape[1],
    )


def ranked_thresholds(routing: Routing, valid_T: jax.Array) -> jax.Array:
    """Returns Levanter's estimate of the balancing thresholds, f32[E]: the margin of the rank that makes up an even share.

    It sorts the margins of the whole batch, so over devices each gets them all; `balancing.histogram_thresholds` does not.
    """
    return estimate_qb_beta_topk(
        jax.sharding.reshard(routing.margins_TE, jax.P("batch", None)),
        jax.sharding.reshard(valid_T, jax.P("batch")),
        jax.sharding.get_abstract_mesh(),
        batch_axes=("batch",),
        num_experts_per_token=routing.experts_TK.shape[1],
        num_experts=routing.logits_TE.shape[1],
    )
