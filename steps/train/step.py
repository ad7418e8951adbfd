"""One update of the model as a compiled function of the training state and a batch."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from steps.model.config import ModelConfig
from steps.model.feed_forward import RouterStatistics
from steps.model.mesh import P, constrained, global_array, over_experts
from steps.model.parameters import Parameters, initial_parameters
from steps.model.transformer import hidden_states, router_bias, token_losses
from steps.train.language_model import OptimizerConfig
from steps.train.optimizer import optimizer, path_name


class TrainState(NamedTuple):
    """All that the next update depends on, besides the data."""

    parameters: Parameters
    """f32 arrays (`steps.model.parameters.parameter_shapes`)."""
    optimizer: Any
    """optax state of the three groups."""
    qb_betas: jax.Array
    """f32[layers, experts]: thresholds that the last batch estimated, for the next one's selection. Outside the parameters:
    no gradient reaches them, and checkpoints and evaluations must carry them."""


def initial_state(model: ModelConfig, groups: OptimizerConfig, seed: int) -> TrainState:
    """Returns the state before the first update, over the mesh in use."""

    def placed(path: Any, values: np.ndarray) -> jax.Array:
        return global_array(_spec(path, values), values)

    parameters = jax.tree_util.tree_map_with_path(placed, initial_parameters(model, seed))
    qb_betas = global_array(P(), np.zeros((model.num_layers, model.num_experts), np.float32))
    return TrainState(
        parameters, jax.jit(lambda each: _laid_out(optimizer(groups, 0.0, 0.0).init(each)))(parameters), qb_betas
    )


def _spec(path: Any, array: Any) -> P:
    """How an array of the state lies: the experts' are divided over the devices of a rack, all else is whole on each."""
    of_experts = path_name(path).rsplit("/", 1)[-1].startswith("expert_")
    return over_experts(array.shape[1], axis=1) if of_experts else P()


def _laid_out(state: Any) -> Any:
    return jax.tree_util.tree_map_with_path(lambda path, array: constrained(array, _spec(path, array)), state)


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


@partial(jax.jit, static_argnames=("model", "groups", "z_loss"), donate_argnames="state")
def update(
    state: TrainState,
    tokens_BS1: jax.Array,
    segment_ids_BS1: jax.Array,
    rates: jax.Array,
    *,
    model: ModelConfig,
    groups: OptimizerConfig,
    z_loss: float,
) -> tuple[TrainState, dict[str, Any]]:
    """Returns the state after one update, and its metrics as scalars. The state given is donated: it can't be used again.

    Args:
        state: before the update.
        tokens_BS1: i32[B, S + 1] of the batch.
        segment_ids_BS1: i32[B, S + 1], the document of each position within its row.
        rates: f32[2], the hyperball and the Adam learning rate.
        model: the shape; its capacity factor decides what is dropped.
        groups: the optimiser.
        z_loss: weight of the squared logsumexp.
    """
    loss_and_gradient = jax.value_and_grad(training_loss, has_aux=True)
    (loss, (cross_entropy, stats, num_targets)), gradients = loss_and_gradient(
        state.parameters, state.qb_betas, tokens_BS1, segment_ids_BS1, model, z_loss
    )
    transform = optimizer(groups, rates[0], rates[1])
    updates, optimizer_state = transform.update(gradients, state.optimizer, state.parameters)
    num_tokens = tokens_BS1.shape[0] * (tokens_BS1.shape[1] - 1)
    metrics: dict[str, Any] = {
        "loss": loss,
        "cross_entropy": cross_entropy,
        "z_loss": loss - cross_entropy,
        "targets": num_targets,
        "grad_norm": optax.global_norm(gradients),
        "grad_norm_lm_head": optax.global_norm(gradients["lm_head"]),
        "parameter_norm": optax.global_norm(state.parameters),
        **_metrics(stats, state.qb_betas, num_tokens * model.experts_per_token * model.num_layers),
    }
    parameters: Any = optax.apply_updates(state.parameters, updates)
    whole = {name: constrained(value, P()) for name, value in metrics.items()}
    return _laid_out(TrainState(parameters, optimizer_state, stats.qb_beta)), whole
