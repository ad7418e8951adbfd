"""Attention of one layer, local or global: keys of several query heads, partial rotation, exclusive attention, head gates.

A position sees positions of its own document that are not later than itself; on a local layer only the last few of them. All
layers are one compiled program: which sort a layer is of comes as an array. Masks, the full rotation and the scores are
Levanter's (`levanter.grug.attention`), and so is the short convolution.

Shape letters: B sequences, S positions, D width, H query heads, G stored key heads, h head width.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from levanter.grug.attention import AttentionMask, RotaryConfig, align_kv_heads, apply_rotary_embedding, attention
from levanter.kernels.triton.short_conv import short_conv

from steps.model.config import ModelConfig
from steps.model.norms import rms_norm
from steps.model.parameters import Parameters

_QK_EPSILON = 1e-6
_XSA_EPSILON = 1e-6


class Sight(NamedTuple):
    """What positions may see, for local and for global layers, and which of them are of one document."""

    local: AttentionMask
    whole: AttentionMask
    segment_ids: jax.Array  # i32[B, S]


def sight(segment_ids_BS: jax.Array, config: ModelConfig) -> Sight:
    """Returns what the layers see of a batch whose positions belong to these documents."""
    local, whole = (
        AttentionMask.causal(sliding_window=window).with_segment_ids(segment_ids_BS)
        for window in (config.attention_window, None)
    )
    return Sight(local, whole, segment_ids_BS)


def convolved(layer: Parameters, name: str, x_BSC: jax.Array, seen: Sight) -> jax.Array:
    """Returns each channel's weighted sum over its last positions, those of other documents left out.

    Args:
        layer: may hold the taps, `name` f32[taps, C], the position's own first; without them x is returned as it is.
        name: "conv_k", "conv_attention" or "conv_mlp".
        x_BSC: f32[B, S, C].
        seen: which positions are of one document.
    """
    return short_conv(layer[name], x_BSC, seen.segment_ids) if name in layer else x_BSC


def attend(layer: Parameters, x_BSD: jax.Array, seen: Sight, is_global: jax.Array, config: ModelConfig) -> jax.Array:
    """Returns the attention branch's output, f32[B, S, D].

    Args:
        layer: one layer's parameters.
        x_BSD: f32[B, S, D], the normed residual stream.
        seen: what local and global layers see.
        is_global: bool[], the sort of this layer.
        config: the shape.
    """
    batch, length, _ = x_BSD.shape
    q_BSC, k_BSC, v_BSC = (x_BSD @ layer[name] for name in ("w_q", "w_k", "w_v"))
    k_BSC = convolved(layer, "conv_k", k_BSC, seen)
    q_BSHh, k_BSGh, v_BSGh = (each.reshape(batch, length, -1, config.head_width) for each in (q_BSC, k_BSC, v_BSC))
    q_BSHh, k_BSGh = rms_norm(q_BSHh, _QK_EPSILON) * config.qk_scale, rms_norm(k_BSGh, _QK_EPSILON)
    q_BSHh, k_BSGh = _positioned(q_BSHh, k_BSGh, is_global, config)
    k_BSHh, v_BSHh = (_for_query_heads(each, is_global, config) for each in (k_BSGh, v_BSGh))
    y_BSHh = attention(q_BSHh, k_BSHh, v_BSHh, _mask(seen, length, is_global, config), implementation="reference")
    if config.exclusive_attention:
        y_BSHh = without_own_value(y_BSHh, v_BSHh)
    if config.head_gates:
        y_BSHh = 2 * jax.nn.sigmoid(x_BSD @ layer["head_gate"])[..., None] * y_BSHh
    return convolved(layer, "conv_attention", y_BSHh.reshape(batch, length, -1) @ layer["w_o"], seen)


def _mask(seen: Sight, length: int, is_global: jax.Array, config: ModelConfig) -> AttentionMask | jax.Array:
    if config.attention_window is None or not any(config.global_layers):
        return seen.local
    whole, local = (mask.materialize_mask(length, length) for mask in (seen.whole, seen.local))
    assert whole is not None and local is not None
    return jnp.where(is_global, whole, local)


def _positioned(
    q_BSHh: jax.Array, k_BSGh: jax.Array, is_global: jax.Array, config: ModelConfig
) -> tuple[jax.Array, jax.Array]:
    """Queries and keys rotated by their positions; on global layers as they are, unless these rotate too."""
    if config.rotary == "full":
        rope = RotaryConfig(theta=config.rope_theta)
        rotated = apply_rotary_embedding(q_BSHh, k_BSGh, seq_len=q_BSHh.shape[1], head_dim=config.head_width, rope=rope)
    else:
        rotated = half_rotated(q_BSHh, config.rope_theta), half_rotated(k_BSGh, config.rope_theta)
    if config.rotary_on_global or not any(config.global_layers):
        return rotated
    return jnp.where(is_global, q_BSHh, rotated[0]), jnp.where(is_global, k_BSGh, rotated[1])


def half_rotated(x_BSHh: jax.Array, theta: float) -> jax.Array:
    """Returns f32[B, S, H, h] with the first half of each head rotated by position, in pairs of neighbours.

    Pair i of h/4 turns by position x theta^(-i / (h/4)) radians; the second half stays.
    """
    length, width = x_BSHh.shape[1], x_BSHh.shape[3]
    pairs = width // 4
    angles_Sp = jnp.arange(length)[:, None] / theta ** (jnp.arange(pairs) / pairs)[None, :]
    cos, sin = (each[None, :, None, :] for each in (jnp.cos(angles_Sp), jnp.sin(angles_Sp)))
    a, b = x_BSHh[..., : 2 * pairs : 2], x_BSHh[..., 1 : 2 * pairs : 2]
    turned = jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(*x_BSHh.shape[:3], 2 * pairs)
    return jnp.concatenate([turned, x_BSHh[..., 2 * pairs :]], axis=-1)


def _for_query_heads(x_BSGh: jax.Array, is_global: jax.Array, config: ModelConfig) -> jax.Array:
    """Keys or values f32[B, S, H, h] as each query head reads them: the layer's sort decides how many of the stored heads."""

    def of(heads: int) -> jax.Array:
        return align_kv_heads(x_BSGh[:, :, :heads], num_q_heads=config.num_heads)

    if config.global_kv_heads == config.kv_heads or not any(config.global_layers):
        return of(config.kv_heads)
    return jnp.where(is_global, of(config.global_kv_heads), of(config.kv_heads))


def without_own_value(y_BSHh: jax.Array, v_BSHh: jax.Array) -> jax.Array:
    """Returns y less its component along the position's own value, head by head: y - (y.v / (|v|^2 + 1e-6)) v."""
    along = jnp.sum(y_BSHh * v_BSHh, axis=-1, keepdims=True)
    size = jnp.sum(v_BSHh * v_BSHh, axis=-1, keepdims=True)
    return y_BSHh - along / (size + _XSA_EPSILON) * v_BSHh
