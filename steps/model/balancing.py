"""Quantile balancing: the thresholds at which each expert would have got exactly its share of a batch.

A token's margin for an expert is the expert's logit less the token's own threshold, the biased logit of its best expert that it did
not choose. An expert's threshold is the margin that so many tokens reach as make up its even share, T x K / E; less that, as a
bias, the next batch selects evenly. Nothing here is trained, and no gradient passes.

Shape letters: T tokens, E experts, K choices, N bins.
"""

import jax
import jax.numpy as jnp

from steps.model.mesh import added_over_devices

NUM_BINS = 10_000


def histogram_thresholds(margins_TE: jax.Array, valid_T: jax.Array, choices: int) -> tuple[jax.Array, jax.Array]:
    """Returns each expert's threshold f32[E], and the smallest and the largest margin f32[2].

    The margins of valid tokens are counted in `NUM_BINS` equal bins between the smallest and the largest of them all, and the
    threshold is interpolated in the bin where the count from above reaches the share. Counts are integers and the ends of
    the range are margins, so equal margins give equal bits, in any order and over any number of devices. Without a valid
    token all is zero.

    Args:
        margins_TE: f32[T, E].
        valid_T: bool[T]; other tokens are not counted.
        choices: experts a token is sent to.
    """
    margins_TE = jax.lax.stop_gradient(margins_TE)
    num_experts = margins_TE.shape[1]
    valid_T1 = valid_T[:, None]
    low = jnp.min(jnp.where(valid_T1, margins_TE, jnp.inf))
    high = jnp.max(jnp.where(valid_T1, margins_TE, -jnp.inf))
    bin_width = (jnp.maximum(high, low + 1e-6) - low) / NUM_BINS
    counts_EN = added_over_devices(_counted, (low, bin_width), margins_TE, valid_T)
    reached_EN = jnp.cumsum(counts_EN[:, ::-1], axis=1)[:, ::-1]
    share = jnp.sum(valid_T, dtype=jnp.float32) * choices / num_experts
    crossing_E1 = jnp.sum(reached_EN >= share, axis=1, keepdims=True) - 1
    reached_E, inside_E = (
        jnp.take_along_axis(each, crossing_E1, axis=1)[:, 0].astype(jnp.float32) for each in (reached_EN, counts_EN)
    )
    threshold_E = low + bin_width * (crossing_E1[:, 0] + (reached_E - share) / jnp.maximum(inside_E, 1.0))
    any_valid = jnp.any(valid_T)
    return jnp.where(any_valid, threshold_E, 0.0), jnp.where(any_valid, jnp.stack([low, high]), 0.0)


def _counted(bins: tuple[jax.Array, jax.Array], margins_TE: jax.Array, valid_T: jax.Array) -> jax.Array:
    """Valid tokens by expert and bin, i32[E, N], of bins that start at bins[0] and are bins[1] wide."""
    low, bin_width = bins
    num_tokens, num_experts = margins_TE.shape
    bin_TE = jnp.clip(((margins_TE - low) / bin_width).astype(jnp.int32), 0, NUM_BINS - 1)
    expert_TE = jnp.broadcast_to(jnp.arange(num_experts), (num_tokens, num_experts))
    return jnp.zeros((num_experts, NUM_BINS), jnp.int32).at[expert_TE, bin_TE].add(valid_T[:, None].astype(jnp.int32))
