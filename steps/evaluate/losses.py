"""Held-out losses of a model state, dropless: the one implementation that training runs and that checkpoints are scored with.

The pending quantile-balancing thresholds are applied as in training (leaving them out changes the routing, hence the loss),
and no expert has a capacity unless losses as trained are asked for. Sums over tokens are made in float64 on the host, in a
fixed order of sets and batches.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from marin_exec import StepFailed
from steps.model.config import ModelConfig
from steps.model.dispatch.limits import PooledDispatch
from steps.model.mesh import P, constrained, num_devices
from steps.model.parameters import Parameters
from steps.model.transformer import hidden_states, token_losses

_TOKENS_A_BATCH = 2048


class HeldOutSet(Protocol):
    """What is needed of an evaluation set (`steps.mix.evaluation_sets.EvaluationSet`)."""

    @property
    def tokens(self) -> np.ndarray:
        """i32[n, S + 1]."""
        ...

    @property
    def segment_ids(self) -> np.ndarray:
        """i32[n, S + 1]: document of each position within its row; -1 on padding."""
        ...

    @property
    def loss_mask(self) -> np.ndarray:
        """bool[n, S]: targets that count."""
        ...

    @property
    def target_bytes(self) -> np.ndarray:
        """i32[n, S]: UTF-8 bytes that each target stands for; 0 for special tokens."""
        ...


@dataclass(frozen=True)
class SetLoss:
    """Losses of one held-out set."""

    loss: float
    """Mean cross-entropy of its targets, nats a token."""
    bpb: float
    """Bits a byte of the text that its targets stand for."""
    num_targets: int
    """Tokens predicted."""


@dataclass(frozen=True)
class Evaluation:
    """Losses over all held-out sets."""

    macro_loss: float
    """Unweighted mean over the sets, nats a token."""
    micro_loss: float
    """Mean over all targets, nats a token."""
    macro_bpb: float
    """Unweighted mean of the sets' bits a byte."""
    micro_bpb: float
    """Bits a byte of all sets' scored text together."""
    sets: dict[str, SetLoss]
    """By name."""

    def plain(self) -> dict[str, Any]:
        """Returns the evaluation as plain JSON values, each set's loss and bits a byte under `sets`."""
        row = asdict(self)
        row["sets"] = {name: {"loss": each.loss, "bpb": each.bpb} for name, each in self.sets.items()}
        return row

    def tagged(self, prefix: str = "eval") -> dict[str, float]:
        """Returns the losses under the names that Levanter's tagged evaluation gives them."""
        named = {
            "loss": self.micro_loss,
            "macro_loss": self.macro_loss,
            "bpb": self.micro_bpb,
            "macro_bpb": self.macro_bpb,
        }
        for name, each in self.sets.items():
            named |= {f"{name}/loss": each.loss, f"{name}/bpb": each.bpb}
        return {f"{prefix}/{name}": value for name, value in named.items()}


class Rows(NamedTuple):
    """Sequences to score."""

    tokens: np.ndarray  # i32[N, S + 1]
    segment_ids: np.ndarray  # i32[N, S + 1]; -1 on padding
    mask: np.ndarray  # bool[N, S]: targets that count


@dataclass(frozen=True)
class _Span:
    """Where a set's sequences stand among the rows, and what its losses are divided by."""

    rows: slice
    num_targets: int
    num_bytes: int


@partial(jax.jit, static_argnames=("model", "capacity"))
def _sequence_nats(
    parameters: Parameters,
    qb_betas_LE: jax.Array,
    tokens: jax.Array,
    segment_ids: jax.Array,
    mask: jax.Array,
    model: ModelConfig,
    capacity: int | PooledDispatch | None,
) -> jax.Array:
    """Summed cross-entropy of each sequence's counted targets, f32[N]."""
    hidden, _ = hidden_states(parameters, qb_betas_LE, tokens[:, :-1], segment_ids[:, :-1], model, capacity=capacity)
    losses, _ = token_losses(parameters, hidden, tokens[:, 1:])
    return constrained(jnp.sum(jnp.where(mask, losses, 0.0), axis=-1), P())


def row_nats(
    parameters: Parameters, qb_betas: jax.Array, rows: Rows, model: ModelConfig, *, with_drops: bool = False
) -> np.ndarray:
    """Returns the summed cross-entropy of each row's counted targets, float64[N], in nats.

    Rows are scored in batches of one shape of 2,048 tokens; dropless, a row's value does not depend on its company. Must run under
    `jax.set_mesh(device_mesh())`.

    Args:
        parameters: of the model.
        qb_betas: pending thresholds, f32[layers, experts].
        rows: N of them.
        model: the shape.
        with_drops: limits experts as in training.
    """
    batch = max(1, _TOKENS_A_BATCH // model.sequence_length)
    batch += -batch % math.lcm(num_devices(), model.dispatch.source_shards if model.dispatch else 1)
    capacity = model.capacity(batch * model.sequence_length) if with_drops else None
    filled = _filled(rows, batch, model.sequence_length)
    parts = [
        _sequence_nats(parameters, qb_betas, *(each[start : start + batch] for each in filled), model, capacity)
        for start in range(0, len(filled.tokens), batch)
    ]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])[: len(rows.tokens)]


class Evaluator:
    """The held-out sets, cut to sequences."""

    def __init__(self, sets: Mapping[str, HeldOutSet], model: ModelConfig, *, sequences_per_set: int | None = None):
        """Gathers the sets' sequences.

        Args:
            sets: by name.
            model: its sequence length must be the sets'.
            sequences_per_set: takes so many sequences from the front of each set, and the bytes of their targets. None
                takes all.

        Raises:
            StepFailed: there is no set, a set has no target that stands for text, or its sequences have another length.
        """
        if not sets:
            raise StepFailed(
                "evaluation: there are no held-out sets; the token store given as `evaluation` has no cell"
            )
        self._rows, self._spans = _gather(sets, model, sequences_per_set)
        self._model = model

    def __call__(self, parameters: Parameters, qb_betas: jax.Array, *, with_drops: bool = False) -> Evaluation:
        """Returns the losses of a model state. Must run under `jax.set_mesh(device_mesh())`.

        Args:
            parameters: of the model.
            qb_betas: pending thresholds, f32[layers, experts].
            with_drops: limits experts as in training, in batches of 2,048 tokens. What is dropped depends on which
                sequences share a batch, so these losses say nothing of a set by itself.
        """
        nats_N = row_nats(parameters, qb_betas, self._rows, self._model, with_drops=with_drops)
        nats = {name: float(nats_N[span.rows].sum()) for name, span in self._spans.items()}
        sets = {
            name: SetLoss(nats[name] / span.num_targets, nats[name] / math.log(2) / span.num_bytes, span.num_targets)
            for name, span in self._spans.items()
        }
        return Evaluation(
            macro_loss=sum(each.loss for each in sets.values()) / len(sets),
            micro_loss=sum(nats.values()) / sum(each.num_targets for each in sets.values()),
            macro_bpb=sum(each.bpb for each in sets.values()) / len(sets),
            micro_bpb=sum(nats.values()) / math.log(2) / sum(span.num_bytes for span in self._spans.values()),
            sets=sets,
        )


def _gather(
    sets: Mapping[str, HeldOutSet], model: ModelConfig, sequences_per_set: int | None
) -> tuple[Rows, dict[str, _Span]]:
    taken, spans, start = [], {}, 0
    for name in sorted(sets):
        rows = _taken(name, sets[name], model, sequences_per_set)
        num_bytes = int(sets[name].target_bytes[: len(rows.tokens)][rows.mask].sum())
        if not num_bytes:
            raise StepFailed(
                f"evaluation set {name}: no target with text is counted; the set needs at least one document of two tokens"
            )
        spans[name] = _Span(slice(start, start + len(rows.tokens)), int(rows.mask.sum()), num_bytes)
        taken.append(rows)
        start += len(rows.tokens)
    return Rows(*(np.concatenate(each) for each in zip(*taken, strict=True))), spans


def _filled(rows: Rows, batch: int, length: int) -> Rows:
    """The rows and padding, which is neither routed nor counted, up to whole batches: one shape to compile."""
    missing = -len(rows.tokens) % batch
    padding = Rows(
        np.zeros((missing, length + 1), np.int32),
        np.full((missing, length + 1), -1, np.int32),
        np.zeros((missing, length), bool),
    )
    return Rows(*(np.concatenate(each) for each in zip(rows, padding, strict=True)))


def _taken(name: str, whole: HeldOutSet, model: ModelConfig, sequences: int | None) -> Rows:
    if whole.tokens.shape[1] != model.sequence_length + 1:
        raise StepFailed(
            f"evaluation set {name}: rows of {whole.tokens.shape[1]} tokens; the model predicts {model.sequence_length} "
            f"positions, so {model.sequence_length + 1} are needed"
        )
    tokens, segments = (np.asarray(each[:sequences], np.int32) for each in (whole.tokens, whole.segment_ids))
    return Rows(tokens, segments, np.asarray(whole.loss_mask[:sequences], bool))
