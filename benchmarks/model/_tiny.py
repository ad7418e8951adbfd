"""A tiny model with the hero run's features, its training on the library's text, and what its routers do on given rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.model._text import VOCABULARY, files, packed_rows
from steps.model.config import ModelConfig
from steps.model.dispatch.limits import PooledDispatch
from steps.model.features import hero_features
from steps.model.feed_forward import RouterStatistics
from steps.model.mesh import array_of_rows, device_mesh
from steps.model.transformer import hidden_states, token_losses
from steps.train.language_model import OptimizerConfig
from steps.train.optimizer import learning_rates
from steps.train.step import TrainState, initial_state, update

SHARDS = 8
ROWS = 8  # one a shard
OPTIMIZER = OptimizerConfig(learning_rate=0.1, adam_learning_rate=0.1 * 3 / 13)


def tiny_model(**changes: Any) -> ModelConfig:
    """Returns the shape: width 32, 4 layers, 16 experts of which 2 are chosen, 8 shards, sequences of 256."""
    features = hero_features(width=32, num_heads=2, sequence_length=256)
    fields: dict[str, Any] = {
        "width": 32,
        "num_layers": 4,
        "num_heads": 2,
        "vocabulary_size": VOCABULARY,
        "sequence_length": 256,
        "expert_width": 16,
        "shared_width": 16,
        "dispatch": PooledDispatch(num_shards=SHARDS),
    }
    return ModelConfig(**(fields | features | changes))


def trained(
    model: ModelConfig,
    *,
    num_steps: int,
    seed: int = 0,
    document_length: int = 64,
    z_loss: float = 1e-4,
    each: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> TrainState:
    """Returns the state after so many updates of 8 rows; `each` gets every update's metrics. Must run under a mesh."""
    state, texts = initial_state(model, OPTIMIZER, seed), files(held_out=False)
    for step in range(num_steps):
        tokens, segments = packed_rows(
            texts,
            num_rows=ROWS,
            sequence_length=model.sequence_length,
            document_length=document_length,
            seed=1000 * seed + step,
        )
        rates = learning_rates(OPTIMIZER, step, num_steps)
        state, metrics, _ = update(
            state,
            array_of_rows(tokens, ROWS),
            array_of_rows(segments, ROWS),
            np.array([rates.hyperball, rates.adam, rates.decay], np.float32),
            model=model,
            groups=OPTIMIZER,
            z_loss=z_loss,
        )
        each(jax.device_get(metrics))
    return state


@dataclass(frozen=True)
class Held:
    """What a model did on held-out rows."""

    loss: float
    """Mean cross-entropy, nats a byte."""
    counts_LE: np.ndarray
    """Assignments to each expert before any limit, by layer."""
    sender_L: np.ndarray
    receiver_L: np.ndarray
    assignments_per_layer: int
    """Tokens x choices."""


@partial(jax.jit, static_argnames=("model", "capacity"))
def _measured(
    state: TrainState, tokens: jax.Array, segments: jax.Array, model: ModelConfig, capacity: PooledDispatch | None
) -> tuple[jax.Array, RouterStatistics]:
    inputs = tokens[:, :-1]
    hidden, stats = hidden_states(state.parameters, state.qb_betas, inputs, segments[:, :-1], model, capacity=capacity)
    losses, _ = token_losses(state.parameters, hidden, tokens[:, 1:])
    same = segments[:, 1:] == segments[:, :-1]
    return jnp.sum(losses * same) / jnp.sum(same), stats


def measured(
    state: TrainState, model: ModelConfig, *, document_length: int, dropless: bool, num_batches: int = 16
) -> Held:
    """Returns loss, loads and drops on batches of one held-out row a shard. Must run under a mesh."""
    texts = files(held_out=True)
    losses, stats = [], []
    for batch in range(num_batches):
        rows = packed_rows(
            texts,
            num_rows=ROWS,
            sequence_length=model.sequence_length,
            document_length=document_length,
            seed=10**6 + batch,
        )
        loss, found = _measured(state, *rows, model, None if dropless else model.dispatch)
        losses.append(float(loss))
        stats.append(jax.device_get(found))
    return Held(
        loss=float(np.mean(losses)),
        counts_LE=np.sum([each.counts for each in stats], axis=0),
        sender_L=np.sum([each.sender_dropped for each in stats], axis=0),
        receiver_L=np.sum([each.receiver_dropped for each in stats], axis=0),
        assignments_per_layer=num_batches * ROWS * model.sequence_length * model.experts_per_token,
    )


def rebalanced(state: TrainState, model: ModelConfig, *, document_length: int) -> TrainState:
    """Returns the state with thresholds as one more update, on rows of that kind, would estimate them; weights stay."""
    rows = packed_rows(
        files(held_out=False),
        num_rows=ROWS,
        sequence_length=model.sequence_length,
        document_length=document_length,
        seed=2 * 10**6,
    )
    _, stats = _measured(state, *rows, model, None)
    return state._replace(qb_betas=stats.qb_beta)


def on_mesh() -> Any:
    """Returns the context that all of this runs in: every device of this process."""
    return jax.set_mesh(device_mesh())
