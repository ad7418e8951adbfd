"""What the experts specialise in: how often each is chosen for text of each held-out set.

Choices are counted before any capacity, with the pending thresholds applied, as evaluation does.
Shapes: L layers, E experts, S sequence positions, n sequences of a set.
"""

from collections.abc import Mapping
from functools import partial

import jax
import numpy as np

from steps.evaluate.losses import HeldOutSet
from steps.model.config import ModelConfig
from steps.model.mesh import P, constrained, num_devices
from steps.model.parameters import Parameters
from steps.model.transformer import hidden_states


@partial(jax.jit, static_argnames="model")
def _counts(
    parameters: Parameters, qb_betas_LE: jax.Array, tokens_nS: jax.Array, segment_ids_nS: jax.Array, model: ModelConfig
) -> jax.Array:
    _, stats = hidden_states(parameters, qb_betas_LE, tokens_nS, segment_ids_nS, model, capacity=None)
    return constrained(stats.counts, P())


class ExpertLoads:
    """The front of each held-out set, padded to one shape, so that each set is counted by itself."""

    def __init__(self, sets: Mapping[str, HeldOutSet], model: ModelConfig, sequences_per_set: int):
        """Takes at most so many sequences from the front of each set."""
        rows = sequences_per_set + -sequences_per_set % num_devices()
        self.names = sorted(sets)
        self._model = model
        self._batches = [self._padded(sets[name], rows, sequences_per_set) for name in self.names]

    def __call__(self, parameters: Parameters, qb_betas_LE: jax.Array) -> np.ndarray:
        """Returns assignments, int64[L, E, sets], sets in order of name. Must run under `jax.set_mesh(device_mesh())`."""
        counts = [_counts(parameters, qb_betas_LE, *batch, self._model) for batch in self._batches]
        return np.stack([np.rint(np.asarray(each)).astype(np.int64) for each in counts], axis=-1)

    def _padded(self, whole: HeldOutSet, rows: int, taken: int) -> tuple[np.ndarray, np.ndarray]:
        length = self._model.sequence_length
        tokens, segments = np.zeros((rows, length), np.int32), np.full((rows, length), -1, np.int32)
        given = whole.tokens[:taken, :length]
        tokens[: len(given)], segments[: len(given)] = given, whole.segment_ids[:taken, :length]
        return tokens, segments
