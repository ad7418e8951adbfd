"""Which updates are spikes: the loss or the gradient's norm stands out from those of the updates before.

The rule is that of `levanter.optim.skipstep`, which wraps an optax transformation and tells only a tracker of what it did. Here
the window is part of the training state, so a resumed run judges as an uninterrupted one, and the verdict is a metric.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from steps.train.watch_config import SpikeConfig

_SMALLEST_DEVIATION = 1e-6


class SpikeState(NamedTuple):
    """The window: a ring of W entries that the update numbered n (from 0) writes at n mod W."""

    losses: jax.Array  # f32[W]
    gradient_norms: jax.Array  # f32[W]
    num_seen: jax.Array  # i32[]: updates so far


class Verdict(NamedTuple):
    """What was found of one update."""

    is_spike: jax.Array  # bool[]
    loss_limit: jax.Array  # f32[]: inf while too little has been seen
    gradient_norm_limit: jax.Array  # f32[]: likewise


def empty_window(config: SpikeConfig) -> SpikeState:
    """Returns the state before the first update."""
    return SpikeState(jnp.zeros(config.window), jnp.zeros(config.window), jnp.zeros((), jnp.int32))


def judge(
    state: SpikeState, loss: jax.Array, gradient_norm: jax.Array, config: SpikeConfig
) -> tuple[Verdict, SpikeState]:
    """Returns whether an update is a spike, by those before it, and the window with it, spike or not.

    A spike enters the window too: were it kept out, a loss that has moved to another level would never be trained on again.

    Args:
        state: of the updates before.
        loss: f32[], as optimised.
        gradient_norm: f32[], of all gradients.
        config: window and limit.
    """
    known = jnp.arange(config.window) < state.num_seen
    enough = state.num_seen >= max(2, config.window // 2)

    def limit(values: jax.Array) -> jax.Array:
        deviation = jnp.maximum(jnp.std(values, where=known), _SMALLEST_DEVIATION)
        return jnp.where(enough, jnp.mean(values, where=known) + config.deviations * deviation, jnp.inf)

    limits = limit(state.losses), limit(state.gradient_norms)
    fits = (loss <= limits[0]) & (gradient_norm <= limits[1])
    place = state.num_seen % config.window
    after = SpikeState(
        state.losses.at[place].set(loss), state.gradient_norms.at[place].set(gradient_norm), state.num_seen + 1
    )
    return Verdict(enough & ~fits, *limits), after
