"""The feed-forward branch: routed experts, in the stream's width or in a latent one, beside shared experts.

Shape letters: T tokens, D width, l latent width, K choices, E experts, F shared width, n shared experts, L layers.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from levanter.grug.grug_moe import MoeDispatchCounts

from steps.model.balancing import histogram_thresholds
from steps.model.config import ModelConfig
from steps.model.dispatch.limits import PooledDispatch
from steps.model.dispatch.pooled import PooledExperts
from steps.model.experts import ExpertWeights, GroupedExperts, routed_experts
from steps.model.norms import rms_norm
from steps.model.parameters import Parameters
from steps.model.routing import ranked_thresholds, routed, routing_statistics


class RouterStatistics(NamedTuple):
    """What the router did in one forward pass, one entry a layer."""

    qb_beta: jax.Array  # f32[L, E]: the balancing thresholds estimated from this batch; zeros without balancing
    counts: jax.Array  # f32[L, E]: assignments to each expert, before capacity
    entropy: jax.Array  # f32[L]: of the assignment fractions, nats
    load_balancing_loss: jax.Array  # f32[L]: logged, never optimised
    z: jax.Array  # f32[L]: mean squared logsumexp of the router's logits, logged only
    dropped: jax.Array  # f32[L]: assignments that no expert ran
    sender_dropped: jax.Array  # i32[L]: those of them that found their pool full
    receiver_dropped: jax.Array  # i32[L]: those that found their expert full
    margin_range: jax.Array | None  # f32[L, 2]: smallest and largest margin; None without a histogram


class LatentExperts(NamedTuple):
    """Experts behind one down- and up-projection, callable as Levanter's `QBRoutedMoE` calls its `expert_mlp`.

    LatentMoE (arXiv:2601.18089): dispatch moves vectors of the latent width. The norm behind the down-projection keeps what experts
    read at one scale; the up-projection acts on each token's combined sum.
    """

    experts: GroupedExperts | PooledExperts
    down: jax.Array  # f32[D, l]
    norm: jax.Array  # f32[l]
    up: jax.Array  # f32[l, D]
    epsilon: float

    def __call__(self, x: jax.Array, *args: Any, **kwargs: Any) -> tuple[jax.Array, MoeDispatchCounts]:
        """Returns each token's weighted sum over its experts f32[T, D], and what was left out, as the experts themselves do."""
        latent_Tl = rms_norm(x @ self.down, self.epsilon) * self.norm
        combined_Tl, counts = self.experts(latent_Tl, *args, **kwargs)
        return combined_Tl @ self.up, counts


def feed_forward(
    layer: Parameters,
    x_TD: jax.Array,
    valid_T: jax.Array,
    bias_E: jax.Array,
    config: ModelConfig,
    capacity: int | PooledDispatch | None,
) -> tuple[jax.Array, RouterStatistics]:
    """Returns the feed-forward branch's output f32[T, D] and what this layer's router did.

    Args:
        layer: one layer's parameters.
        x_TD: f32[T, D], the normed residual stream.
        valid_T: bool[T]; other tokens are not routed.
        bias_E: f32[E], added to the logits that experts are selected by.
        config: the shape.
        capacity: rows an expert takes of this batch, or the dispatch that limits it; None drops nothing.
    """
    routing = routed(x_TD, layer["router"], bias_E, choices=config.experts_per_token, weight_sum=config.routing_sum)
    stats = routing_statistics(routing, valid_T)
    thresholds_E, margin_range = jnp.zeros_like(bias_E), None
    if config.balancing == "topk":
        thresholds_E = ranked_thresholds(routing, valid_T)
    elif config.balancing == "histogram":
        thresholds_E, margin_range = histogram_thresholds(routing.margins_TE, valid_T, config.experts_per_token)
    routed_TD, drops = _experts(layer, config, capacity)(
        x_TD, routing.experts_TK, routing.weights_TK, token_valid=valid_T
    )
    return routed_TD + _shared(layer, x_TD, config), RouterStatistics(
        qb_beta=thresholds_E,
        counts=stats["routing_counts"],
        entropy=stats["routing_entropy"],
        load_balancing_loss=stats["load_balancing_loss"],
        z=stats["router_z_loss"],
        dropped=drops.dropped.astype(jnp.float32),
        sender_dropped=drops.sender_dropped,
        receiver_dropped=drops.receiver_dropped,
        margin_range=margin_range,
    )


def _experts(
    layer: Parameters, config: ModelConfig, capacity: int | PooledDispatch | None
) -> GroupedExperts | PooledExperts | LatentExperts:
    experts = routed_experts(ExpertWeights(layer["expert_gate"], layer["expert_up"], layer["expert_down"]), capacity)
    if not config.latent_width:
        return experts
    return LatentExperts(experts, layer["latent_down"], layer["latent_norm"], layer["latent_up"], config.norm_epsilon)


def _shared(layer: Parameters, x_TD: jax.Array, config: ModelConfig) -> jax.Array:
    gate, up, down = layer["shared_gate"], layer["shared_up"], layer["shared_down"]
    if config.num_shared_experts == 1:
        return jax.nn.silu(x_TD @ gate) * (x_TD @ up) @ down
    hidden_nTF = jax.nn.silu(jnp.einsum("td,ndf->ntf", x_TD, gate)) * jnp.einsum("td,ndf->ntf", x_TD, up)
    return jnp.einsum("ntf,nfd->td", hidden_nTF, down)
