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
from steps.train.norms import norms_by_path
from steps.train.optimizer import optimizer, path_name
from steps.train.spikes import SpikeState, empty_window, judge
from steps.train.watch_config import SpikeConfig, WatchConfig


class TrainState(NamedTuple):
    """All that the next update depends on, besides the data."""

    parameters: Parameters
    """f32 arrays (`steps.model.parameters.parameter_shapes`)."""
    optimizer: Any
    """optax state of the three groups."""
    qb_betas: jax.Array
    """f32[layers, experts]: thresholds that the last batch estimated, for the next one's selection. Outside the parameters:
    no gradient reaches them, and checkpoints and evaluations must carry them."""
    spikes: SpikeState | None = None
    """The losses and gradient norms that the next update is compared with; None where no update is left out."""


def initial_state(
    model: ModelConfig, groups: OptimizerConfig, seed: int, spikes: SpikeConfig | None = None
) -> TrainState:
    """Returns the state before the first update, over the mesh in use."""

    def placed(path: Any, values: np.ndarray) -> jax.Array:
        return global_array(state_spec(path, values), values)

    parameters = jax.tree_util.tree_map_with_path(placed, initial_parameters(model, seed))
    qb_betas = global_array(P(), np.zeros((model.num_layers, model.num_experts), np.float32))
    moments = jax.jit(lambda each: _laid_out(optimizer(groups, 0.0, 0.0).init(each)))(parameters)
    window = (
        None if spikes is None else jax.tree.map(lambda each: global_array(P(), np.asarray(each)), empty_window(spikes))
    )
    return TrainState(parameters, moments, qb_betas, window)


def state_spec(path: Any, array: Any) -> P:
    """Returns how an array of the state lies: the experts' are divided over the devices of a rack, all else is whole on each."""
    of_experts = path_name(path).rsplit("/", 1)[-1].startswith("expert_")
    return over_experts(array.shape[1], axis=1) if of_experts else P()


def _laid_out(state: Any) -> Any:
    return jax.tree_util.tree_map_with_path(lambda path, array: constrained(array, state_spec(path, array)), state)


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
    found = {
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
    if stats.margin_range is not None:
        found["router_margin_min"] = jnp.min(stats.margin_range[:, 0])
        found["router_margin_max"] = jnp.max(stats.margin_range[:, 1])
    return found


def _layers(stats: RouterStatistics, qb_betas_LE: jax.Array) -> dict[str, jax.Array]:
    """What the routers did, f32[layers] or f32[layers, experts] each, by the last part of its public name."""
    bias = router_bias(qb_betas_LE)
    found = {
        "routing_entropy": stats.entropy,
        "load_balancing_loss": stats.load_balancing_loss,
        "router_z_loss": stats.z,
        "capacity_overflow_rate": stats.dropped / jnp.maximum(jnp.sum(stats.counts, axis=-1), 1.0),
        "bias_max": jnp.max(bias, axis=-1),
        "bias_min": jnp.min(bias, axis=-1),
        "routing_hist": stats.counts,
    }
    if stats.margin_range is not None:
        found |= {"margin_min": stats.margin_range[:, 0], "margin_max": stats.margin_range[:, 1]}
    return found


def _norms(trees: dict[str, Any], watch_now: jax.Array | bool, watch: WatchConfig) -> dict[str, jax.Array]:
    """Norms of all trees by metric name, or zeros where they are not wanted now: then they cost nothing."""

    def taken() -> dict[str, jax.Array]:
        each = (norms_by_path(what, tree, by_layer=watch.by_layer) for what, tree in trees.items())
        return {name: value for found in each for name, value in found.items()}

    nothing = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), jax.eval_shape(taken))
    return jax.lax.cond(watch_now, taken, lambda: nothing)


def _without_spike(
    before: TrainState, after: TrainState, loss: jax.Array, gradient_norm: jax.Array, config: SpikeConfig
) -> tuple[TrainState, dict[str, jax.Array]]:
    """The state to go on from, and what was found: parameters and moments are those before the update if it is a spike."""
    assert before.spikes is not None, "a state of a run that leaves out spikes has a window"
    verdict, window = judge(before.spikes, loss, gradient_norm, config)
    old, new = (before.parameters, before.optimizer), (after.parameters, after.optimizer)
    parameters, moments = jax.tree.map(lambda a, b: jnp.where(verdict.is_spike, a, b), old, new)
    return after._replace(parameters=parameters, optimizer=moments, spikes=window), {
        "skipped_step": verdict.is_spike.astype(jnp.int32),
        "skip_step_loss_threshold": verdict.loss_limit,
        "skip_step_grad_norm_threshold": verdict.gradient_norm_limit,
    }


@partial(jax.jit, static_argnames=("model", "groups", "z_loss", "spikes", "watch"), donate_argnames="state")
def update(
    state: TrainState,
    tokens_BS1: jax.Array,
    segment_ids_BS1: jax.Array,
    rates: jax.Array,
    watch_now: jax.Array | bool = False,
    *,
    model: ModelConfig,
    groups: OptimizerConfig,
    z_loss: float,
    spikes: SpikeConfig | None = None,
    watch: WatchConfig | None = None,
) -> tuple[TrainState, dict[str, Any], dict[str, Any]]:
    """Returns the state after one update, its metrics, and what is watched. The state given can't be used again.

    Metrics are scalars, but for `sender_dropped` and `receiver_dropped` i32[layers] of a model with a dispatch.

    An update that is left out as a spike changes neither parameters nor the optimiser's state; the router's thresholds are
    those that its batch estimated, as always: they are a measurement, not a step.

    Args:
        state: before the update; donated.
        tokens_BS1: i32[B, S + 1] of the batch.
        segment_ids_BS1: i32[B, S + 1], the document of each position within its row.
        rates: f32[3], the hyperball and the Adam learning rate, and the decay of router and head gates.
        watch_now: bool[], whether norms are taken of this update; zeros stand for them where not.
        model: the shape; its capacity factor decides what is dropped.
        groups: the optimiser.
        z_loss: weight of the squared logsumexp.
        spikes: which updates are left out; None for none.
        watch: what is watched; None for nothing, and the third value is empty.
    """
    loss_and_gradient = jax.value_and_grad(training_loss, has_aux=True)
    (loss, (cross_entropy, stats, num_targets)), gradients = loss_and_gradient(
        state.parameters, state.qb_betas, tokens_BS1, segment_ids_BS1, model, z_loss
    )
    transform = optimizer(groups, rates[0], rates[1], rates[2])
    updates, moments = transform.update(gradients, state.optimizer, state.parameters)
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
    if model.dispatch is not None:  # by layer: their sums over layers may be too large for 32 bits
        metrics |= {"sender_dropped": stats.sender_dropped, "receiver_dropped": stats.receiver_dropped}
    after = TrainState(optax.apply_updates(state.parameters, updates), moments, stats.qb_beta, state.spikes)  # type: ignore[arg-type]
    if spikes is not None:
        after, judged = _without_spike(state, after, loss, metrics["grad_norm"], spikes)
        metrics |= judged
    watched = {}
    if watch is not None:
        trees = {"grad": gradients, "params": state.parameters, "updates": updates, "opt_state": state.optimizer}
        watched = {"norms": _norms(trees, watch_now, watch), "layers": _layers(stats, state.qb_betas)}
    whole = jax.tree.map(lambda value: constrained(value, P()), (metrics, watched))
    return _laid_out(after), *whole
