"""Held-out losses of a model state, dropless: the one implementation that training runs and that checkpoints are scored with.

The pending quantile-balancing thresholds are applied as in training (leaving them out changes the routing, hence the loss),
and no expert has a capacity. Sums over tokens are made in float64 on the host, in a fixed order of sets and batches.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from marin_exec import StepFailed
from steps.model.config import ModelConfig
from steps.model.transformer import Parameters, hidden_states, token_losses

_TOKENS_A_BATCH = 2048


class HeldOutSet(Protocol):
    """What is needed of an evaluation set (`steps.mix.order.EvaluationSet`)."""

    tokens: np.ndarray
    segment_ids: np.ndarray
    loss_mask: np.ndarray
    num_bytes: int


@dataclass(frozen=True)
class SetLoss:
    """Losses of one held-out set."""

    loss: float
    """Mean cross-entropy of its targets, nats a token."""
    bpb: float
    """Bits a byte of its text."""
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
    """Bits a byte of all sets' text together."""
    sets: dict[str, SetLoss]
    """By name."""

    def plain(self) -> dict[str, Any]:
        """Returns the evaluation as plain JSON values; `num_targets` is left to the evaluation's own page."""
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


class Evaluator:
    """The held-out sets, cut to batches, with the compiled loss of one batch."""

    def __init__(self, sets: Mapping[str, HeldOutSet], model: ModelConfig, *, sequences_per_set: int | None = None):
        """Cuts the sets into batches.

        Args:
            sets: by name.
            model: its sequence length must be the sets'.
            sequences_per_set: takes so many sequences from the front of each set; its bytes are then counted in
                proportion to the targets taken. None takes all.

        Raises:
            StepFailed: there is no set, a set has no target, or its sequences have another length.
        """
        if not sets:
            raise StepFailed(
                "evaluation: there are no held-out sets; the token store given as `evaluation` has no cell"
            )
        self._rows = max(1, _TOKENS_A_BATCH // model.sequence_length)
        self._sets = {name: _taken(name, sets[name], model, sequences_per_set) for name in sorted(sets)}

        def batch_loss(
            parameters: Parameters, qb_betas: jax.Array, tokens: jax.Array, segments: jax.Array, mask: jax.Array
        ):
            hidden, _ = hidden_states(parameters, qb_betas, tokens[:, :-1], segments[:, :-1], model, capacity=None)
            losses, _ = token_losses(parameters, hidden, tokens[:, 1:])
            return jnp.sum(jnp.where(mask, losses, 0.0), axis=-1)

        self._batch_loss = jax.jit(batch_loss)

    def __call__(self, parameters: Parameters, qb_betas: jax.Array) -> Evaluation:
        """Returns the losses of a model state: its parameters and pending thresholds f32[layers, experts].

        Must run under `jax.set_mesh(local_mesh())`.
        """
        nats = {name: self._nats(parameters, qb_betas, each) for name, each in self._sets.items()}
        targets = {name: int(each[2].sum()) for name, each in self._sets.items()}
        num_bytes = {name: each[3] for name, each in self._sets.items()}
        sets = {
            name: SetLoss(nats[name] / targets[name], nats[name] / math.log(2) / num_bytes[name], targets[name])
            for name in nats
        }
        return Evaluation(
            macro_loss=sum(each.loss for each in sets.values()) / len(sets),
            micro_loss=sum(nats.values()) / sum(targets.values()),
            macro_bpb=sum(each.bpb for each in sets.values()) / len(sets),
            micro_bpb=sum(nats.values()) / math.log(2) / sum(num_bytes.values()),
            sets=sets,
        )

    def _nats(
        self, parameters: Parameters, qb_betas: jax.Array, taken: tuple[np.ndarray, np.ndarray, np.ndarray, float]
    ) -> float:
        tokens, segments, mask, _ = taken
        total = 0.0
        for start in range(0, len(tokens), self._rows):
            rows = slice(start, start + self._rows)
            batch = tokens[rows], segments[rows], mask[rows]
            missing = self._rows - len(batch[0])
            if (
                missing
            ):  # one compiled shape: the last batch is filled up with padding, which is neither routed nor counted
                batch = tuple(
                    np.concatenate([each, np.full((missing, each.shape[1]), fill, each.dtype)])
                    for each, fill in zip(batch, (0, -1, False), strict=True)
                )
            sums = np.asarray(self._batch_loss(parameters, qb_betas, *batch), np.float64)
            total += float(sums.sum())
        return total


def _taken(
    name: str, whole: HeldOutSet, model: ModelConfig, sequences: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    if whole.tokens.shape[1] != model.sequence_length + 1:
        raise StepFailed(
            f"evaluation set {name}: rows of {whole.tokens.shape[1]} tokens; the model predicts {model.sequence_length} "
            f"positions, so {model.sequence_length + 1} are needed"
        )
    tokens, segments = (np.asarray(each[:sequences], np.int32) for each in (whole.tokens, whole.segment_ids))
    mask = np.asarray(whole.loss_mask[:sequences], bool)
    if not mask.any():
        raise StepFailed(
            f"evaluation set {name}: no target is counted; the set needs at least one document of two tokens"
        )
    return tokens, segments, mask, whole.num_bytes * float(mask.sum()) / float(whole.loss_mask.sum())
