"""Norms of the residual stream and of queries and keys.

Shape letters: D features (of any width), r rank of a gate.
"""

import jax
import jax.numpy as jnp

from steps.model.config import ModelConfig
from steps.model.parameters import Parameters


def rms_norm(x: jax.Array, epsilon: float) -> jax.Array:
    """Returns f32[..., D] divided by its root mean square over the last axis, `epsilon` added to the mean square."""
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + epsilon)


def stream_norm(parameters: Parameters, site: str, x: jax.Array, config: ModelConfig) -> jax.Array:
    """Returns the normed residual stream f32[..., D] at a site: RMS norm, gain and, where the model has them, the gate.

    The gate is a factor for each feature, sigmoid(silu(x W_down) W_up) of the normed x, with W_down f32[D, r] and W_up
    f32[r, D] (gated norm, arXiv:2601.22966).

    Args:
        parameters: hold the site's gain and gate, e.g. `attention_norm`, `attention_gated_norm_down` and `_up`.
        site: "embedding", "attention", "mlp" or "final".
        x: f32[..., D].
        config: whether there are gates, and the epsilon.
    """
    normed = rms_norm(x, config.norm_epsilon) * parameters[f"{site}_norm"]
    if not config.gated_norm_rank:
        return normed
    hidden = jax.nn.silu(normed @ parameters[f"{site}_gated_norm_down"])
    return normed * jax.nn.sigmoid(hidden @ parameters[f"{site}_gated_norm_up"])
