"""What the penalty on the output head's logsumexp does to a tiny model: `python -m benchmarks.model.z_loss`.

Two seeds with the hero run's weight, 1e-4, and the same two without. Printed: held-out loss, how large the logsumexp of a
position's logits is (the largest, and its root mean square, over the held-out rows), and the largest gradient norm once the
first updates are over. The one bar is that it learns: docs/lab-log.md keeps the result, whatever it shows. Some four CPU minutes.
"""

import math
from functools import partial

import jax
import numpy as np

from benchmarks.figures import Figures
from benchmarks.model._text import files, packed_rows
from benchmarks.model._tiny import ROWS, measured, on_mesh, tiny_model, trained
from steps.model.config import ModelConfig
from steps.model.transformer import hidden_states, token_losses
from steps.train.step import TrainState

STEPS = 400
SETTLED = 20
LENGTH = 128


@partial(jax.jit, static_argnames="model")
def _log_z(state: TrainState, tokens: jax.Array, segments: jax.Array, model: ModelConfig) -> jax.Array:
    """The logsumexp of each position's logits, f32[B, S], without any limit on what an expert takes."""
    hidden, _ = hidden_states(state.parameters, state.qb_betas, tokens[:, :-1], segments[:, :-1], model, capacity=None)
    return token_losses(state.parameters, hidden, tokens[:, 1:])[1]


def main() -> int:
    figures, model, texts = (
        Figures(),
        tiny_model(sequence_length=LENGTH, attention_window=LENGTH // 2),
        files(held_out=True),
    )
    rows = [
        packed_rows(texts, num_rows=ROWS, sequence_length=LENGTH, document_length=LENGTH, seed=10**6 + batch)
        for batch in range(16)
    ]
    with on_mesh():
        for weight in (1e-4, 0.0):
            for seed in (0, 1):
                norms: list[float] = []
                state = trained(
                    model, num_steps=STEPS, seed=seed, document_length=LENGTH, z_loss=weight,
                    each=lambda metrics, norms=norms: norms.append(float(metrics["grad_norm"])),
                )  # fmt: skip
                log_z = np.concatenate([np.asarray(_log_z(state, *each, model)) for each in rows])
                name = f"weight {weight:g}, seed {seed}"
                loss = measured(state, model, document_length=LENGTH, dropless=True).loss
                figures.add(f"{name}: held-out loss", loss, "nats a byte", at_most=math.log(model.vocabulary_size))
                figures.add(f"{name}: largest |logsumexp|", float(np.abs(log_z).max()), "nats")
                figures.add(f"{name}: root mean square of logsumexp", float(np.sqrt(np.mean(log_z**2))), "nats")
                figures.add(f"{name}: largest gradient norm after {SETTLED} updates", max(norms[SETTLED:]), "norm")
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
