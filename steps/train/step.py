"""One update of the model as a compiled function of the training state and a batch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from steps.model.config import ModelConfig
from steps.model.transformer import (
    Parameters,
    RouterStatistics,
    hidden_states,
    initial_parameters,
    router_bias,
    token_losses,
)
from steps.train.language_model import TrainConfig
from steps.train.optimizer import optimizer


class TrainState(NamedTuple):
    """All that the next update depends on, besides the data."""

    parameters: Parameters
    optimizer: Any
    qb_betas: jax.Array
    """f32[layers, experts]: thresholds that the last batch estimated, for the next one's selection. Outside the parameters:
    no gradient reaches them, and checkpoints and evaluations must carry them."""


def initial_state(config: TrainConfig) -> TrainState:
    """Returns the state before the first update."""
    parameters = initial_parameters(config.model, config.seed)
    qb_betas = jnp.zeros((config.model.num_layers, config.model.num_experts), jnp.float32)
    return TrainState(parameters, optimizer(config.optimizer, 0.0, 0.0).init(parameters), qb_betas)


def training_loss(
    parameters: Parameters,
    qb_betas_LE: jax.Array,
    tokens_BS1: jax.Array,
    segment_ids_BS1: jax.Array,
    model: ModelConfig,
    z_loss: float,
) -> tuple[jax.Array, tuple[jax.Array, RouterStatistics, jax.Array]]:
    """Returns the optimised loss, and (pure cross-entropy, router statistics, number of targets).

    A target counts where it is of the same document as its input, and not padding: what opens the next document can't be
    foreseen from this one.
    """
    inputs, targets = tokens_BS1[:, :-1], tokens_BS1[:, 1:]
    counted = (segment_ids_BS1[:, 1:] == segment_ids_BS1[:, :-1]) & (segment_ids_BS1[:, 1:] >= 0)
    hidden, stats = hidden_states(
        parameters, qb_betas_LE, inputs, segment_ids_BS1[:, :-1], model, capacity=model.capacity(inputs.size)
    )
    losses, log_z = token_losses(parameters, hidden, targets)
    num_targets = jnp.maximum(jnp.sum(counted), 1)
    cross_entropy = jnp.sum(losses * counted) / num_targets
    penalty = jnp.sum(jnp.square(log_z) * counted) / num_targets
    return cross_entropy + z_loss * penalty, (cross_entropy, stats, num_targets)


def _metrics(stats: RouterStatistics, qb_betas_LE: jax.Array, num_assignments: int) -> dict[str, jax.Array]:
    mean_count = jnp.mean(stats.counts, axis=-1)
    bias = router_bias(qb_betas_LE)
    return {
        "router_entropy": jnp.mean(stats.entropy),
        "router_entropy_min": jnp.min(stats.entropy),
        "load_imbalance": jnp.max(jnp.max(stats.counts, axis=-1) / jnp.maximum(mean_count, 1.0)),
        "load_balancing_loss": jnp.mean(stats.load_balancing_loss),
        "router_z": jnp.mean(stats.z),
        "dropped_assignments": jnp.sum(stats.dropped),
        "drop_fraction": jnp.sum(stats.dropped) / num_assignments,
        "router_bias_max": jnp.max(bias),
        "router_bias_min": jnp.min(bias),
    }


def compiled_update(config: TrainConfig) -> Callable[..., tuple[TrainState, dict[str, jax.Array]]]:
    """Returns `update(state, tokens i32[B, S+1], segment_ids i32[B, S+1], rates f32[2]) -> (state, metrics)`, compiled.

    The state given is donated: it can't be used afterwards. `rates` are the hyperball and the Adam learning rate.
    """
    model = config.model
    num_assignments = config.batch_sequences * model.sequence_length * model.experts_per_token * model.num_layers

    def update(
        state: TrainState, tokens: jax.Array, segment_ids: jax.Array, rates: jax.Array
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        loss_and_gradient = jax.value_and_grad(training_loss, has_aux=True)
        (loss, (cross_entropy, stats, num_targets)), gradients = loss_and_gradient(
            state.parameters, state.qb_betas, tokens, segment_ids, model, config.z_loss
        )
        transform = optimizer(config.optimizer, rates[0], rates[1])
        updates, optimizer_state = transform.update(gradients, state.optimizer, state.parameters)
        metrics = {
            "loss": loss,
            "cross_entropy": cross_entropy,
            "z_loss": loss - cross_entropy,
            "targets": num_targets,
            "grad_norm": optax.global_norm(gradients),
            "grad_norm_lm_head": optax.global_norm(gradients["lm_head"]),
            "parameter_norm": optax.global_norm(state.parameters),
            **_metrics(stats, state.qb_betas, num_assignments),
        }
        return TrainState(optax.apply_updates(state.parameters, updates), optimizer_state, stats.qb_beta), metrics

    return jax.jit(update, donate_argnums=0)
