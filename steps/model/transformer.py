"""The model's assembly: parameters as a plain tree of arrays, and the forward pass over them.

Attention, rotary embedding, routing, quantile balancing and routing statistics are Levanter's (`levanter.grug`); the block
around them, the norms and the expert dispatch (`steps.model.experts`) are here. Layers are stacked and scanned.

Shape letters: B sequences, S positions, D width, H heads, h head width, L layers, E experts, V vocabulary, T = B x S tokens.
"""

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from levanter.grug.attention import AttentionMask, RotaryConfig, apply_rotary_embedding, attention
from levanter.grug.grug_moe import QBRoutedMoE

from steps.model.config import ModelConfig
from steps.model.experts import ExpertWeights, GroupedExperts
from steps.model.mesh import constrained, over_devices

Parameters = dict[str, Any]
_QK_EPSILON = 1e-6


class RouterStatistics(NamedTuple):
    """What the router did in one forward pass, one entry a layer."""

    qb_beta: jax.Array  # f32[L, E]: the balancing thresholds estimated from this batch
    counts: jax.Array  # f32[L, E]: assignments to each expert, before capacity
    entropy: jax.Array  # f32[L]: of the assignment fractions, nats
    load_balancing_loss: jax.Array  # f32[L]: logged, never optimised
    z: jax.Array  # f32[L]: mean squared logsumexp of the router's logits, logged only
    dropped: jax.Array  # f32[L]: assignments that found their expert full


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every parameter by its path; layers are stacked along the first axis. Gains are named *_norm."""
    d, n, e = config.width, config.num_layers, config.num_experts
    return {
        "token_embedding": (config.vocabulary_size, d),
        "embedding_norm": (d,),
        "layers/attention_norm": (n, d),
        "layers/w_q": (n, d, d),
        "layers/w_k": (n, d, d),
        "layers/w_v": (n, d, d),
        "layers/w_o": (n, d, d),
        "layers/mlp_norm": (n, d),
        "layers/router": (n, d, e),
        "layers/expert_gate": (n, e, d, config.expert_width),
        "layers/expert_up": (n, e, d, config.expert_width),
        "layers/expert_down": (n, e, config.expert_width, d),
        "layers/shared_gate": (n, d, config.shared_width),
        "layers/shared_up": (n, d, config.shared_width),
        "layers/shared_down": (n, config.shared_width, d),
        "final_norm": (d,),
        "lm_head": (d, config.vocabulary_size),
    }


def parameter_tree(by_path: Mapping[str, Any]) -> Parameters:
    """Returns values given by path as the tree that the forward pass takes."""
    tree: Parameters = {name: value for name, value in by_path.items() if "/" not in name}
    layers = {name.removeprefix("layers/"): value for name, value in by_path.items() if "/" in name}
    return tree | {"layers": layers}


def initial_parameters(config: ModelConfig, seed: int) -> Parameters:
    """Returns fresh f32 parameters as NumPy arrays, gains at one: the bits depend on nothing but the arguments.

    Each array has its own stream, keyed by its path: one more parameter changes no other's values.
    """
    deviation = config.initial_scale / config.width**0.5
    values = {}
    for name, shape in parameter_shapes(config).items():
        if name.endswith("_norm"):
            values[name] = np.ones(shape, np.float32)
        else:
            random = np.random.default_rng([seed, zlib.crc32(name.encode())])
            values[name] = (deviation * _cut_normal(random, shape)).astype(np.float32)
    return parameter_tree(values)


def _cut_normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normals; what lies beyond 3 deviations is drawn again."""
    values = random.standard_normal(shape)
    while (beyond := np.abs(values) > 3).any():
        values[beyond] = random.standard_normal(int(beyond.sum()))
    return values


def router_bias(qb_betas_LE: jax.Array) -> jax.Array:
    """Returns the selection bias that pending quantile thresholds stand for: their negative, centred over experts."""
    return jnp.mean(qb_betas_LE, axis=-1, keepdims=True) - qb_betas_LE


def _rms_norm(x: jax.Array, epsilon: float) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + epsilon)


def _attend(layer: Parameters, x_BSD: jax.Array, mask: AttentionMask, config: ModelConfig) -> jax.Array:
    batch, length, width = x_BSD.shape
    heads = (batch, length, config.num_heads, config.head_width)
    q, k, v = ((x_BSD @ layer[name]).reshape(heads) for name in ("w_q", "w_k", "w_v"))
    q, k = _rms_norm(q, _QK_EPSILON) * config.qk_scale, _rms_norm(k, _QK_EPSILON)
    rope = RotaryConfig(theta=config.rope_theta)
    q, k = apply_rotary_embedding(q, k, seq_len=length, head_dim=config.head_width, rope=rope)
    return attention(q, k, v, mask, implementation="reference").reshape(batch, length, width) @ layer["w_o"]


def _feed_forward(
    layer: Parameters, x_TD: jax.Array, valid_T: jax.Array, bias_E: jax.Array, config: ModelConfig, capacity: int | None
) -> tuple[jax.Array, RouterStatistics]:
    experts = GroupedExperts(ExpertWeights(layer["expert_gate"], layer["expert_up"], layer["expert_down"]), capacity)
    moe = QBRoutedMoE(
        num_experts_per_token=config.experts_per_token, batch_axes=("batch",), routing_renorm_sum=config.routing_sum
    )
    mesh = jax.sharding.get_abstract_mesh()
    routed, stats = moe(
        x_TD,
        valid_T,
        router=layer["router"],
        router_bias=bias_E,
        expert_mlp=experts,  # type: ignore[arg-type]  # called the same way
        mesh=mesh,  # type: ignore[arg-type]
    )
    shared = jax.nn.silu(x_TD @ layer["shared_gate"]) * (x_TD @ layer["shared_up"]) @ layer["shared_down"]
    return routed + shared, RouterStatistics(
        qb_beta=stats["qb_beta"],
        counts=stats["routing_counts"],
        entropy=stats["routing_entropy"],
        load_balancing_loss=stats["load_balancing_loss"],
        z=stats["router_z_loss"],
        dropped=stats["capacity_overflow"],
    )


def hidden_states(
    parameters: Parameters,
    qb_betas_LE: jax.Array,
    tokens_BS: jax.Array,
    segment_ids_BS: jax.Array,
    config: ModelConfig,
    *,
    capacity: int | None,
) -> tuple[jax.Array, RouterStatistics]:
    """Returns the final normed states f32[B, S, D] and what the routers did. Must run under `jax.set_mesh(device_mesh())`.

    Args:
        parameters: as `initial_parameters` makes them.
        qb_betas_LE: pending quantile-balancing thresholds; zeros for none.
        tokens_BS: i32 input tokens.
        segment_ids_BS: i32 document of each position within its row; a negative number is padding. Attention stays
            within a document; padding is not routed.
        capacity: rows an expert takes of this batch, None to drop nothing (evaluation).
    """
    tokens_BS, segment_ids_BS = (constrained(each, over_devices(each.shape[0])) for each in (tokens_BS, segment_ids_BS))
    mask = AttentionMask.causal().with_segment_ids(segment_ids_BS)
    valid_T = (segment_ids_BS >= 0).reshape(-1)

    def block(x_BSD: jax.Array, each: tuple[Parameters, jax.Array]) -> tuple[jax.Array, RouterStatistics]:
        layer, bias_E = each
        normed = _rms_norm(x_BSD, config.norm_epsilon) * layer["attention_norm"]
        x_BSD = x_BSD + _attend(layer, normed, mask, config)
        normed = _rms_norm(x_BSD, config.norm_epsilon) * layer["mlp_norm"]
        fed_TD, stats = _feed_forward(layer, normed.reshape(-1, config.width), valid_T, bias_E, config, capacity)
        return x_BSD + fed_TD.reshape(x_BSD.shape), stats

    x_BSD = parameters["token_embedding"][tokens_BS]
    x_BSD = _rms_norm(x_BSD, config.norm_epsilon) * parameters["embedding_norm"]
    x_BSD, stats = jax.lax.scan(block, x_BSD, (parameters["layers"], router_bias(qb_betas_LE)))
    return _rms_norm(x_BSD, config.norm_epsilon) * parameters["final_norm"], stats


def token_losses(parameters: Parameters, hidden_BSD: jax.Array, targets_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns each target's cross-entropy in nats and the logsumexp of its logits, both f32[B, S]."""
    logits_BSV = hidden_BSD @ parameters["lm_head"]
    log_z_BS = jax.nn.logsumexp(logits_BSV, axis=-1)
    return log_z_BS - jnp.take_along_axis(logits_BSV, targets_BS[..., None], axis=-1)[..., 0], log_z_BS
