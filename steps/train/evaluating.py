"""What a run evaluates on its way: held-out losses, and if it watches, losses as trained, of sequences seen, and expert loads."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from steps.evaluate.expert_loads import ExpertLoads
from steps.evaluate.losses import Evaluation, Evaluator, Rows, row_nats
from steps.mix.evaluation_sets import evaluation_batches
from steps.mix.order import TrainingOrder
from steps.train.language_model import TrainConfig
from steps.train.step import TrainState


@dataclass(frozen=True)
class Evaluated:
    """One evaluation of a training state."""

    held_out: Evaluation
    """Dropless."""
    with_drops: Evaluation | None = None
    """As trained, if wanted at this point of the run."""
    seen_loss: float | None = None
    """Mean cross-entropy of sequences that were trained on, dropless, nats a token."""
    seen_steps: tuple[int, int] | None = None
    """The first and the last update that those sequences are from."""
    loads: np.ndarray | None = None
    """int64[layers, experts, sets]: assignments."""

    def row(self) -> dict[str, Any]:
        """Returns the plain values for `evals.jsonl`."""
        found = self.held_out.plain()
        if self.with_drops is not None:
            found["with_drops"] = self.with_drops.plain()
        if self.seen_loss is not None:
            found["seen"] = {"loss": self.seen_loss, "steps": self.seen_steps}
        return found

    def public(self) -> dict[str, float]:
        """Returns the losses under public names."""
        found = self.held_out.tagged("eval_dropless")
        if self.with_drops is not None:
            found |= self.with_drops.tagged("eval")
        if self.seen_loss is not None:
            found["eval_dropless/seen/loss"] = self.seen_loss
        return found


class RunEvaluations:
    """The held-out sets of a run, and its own order, to evaluate its states on."""

    def __init__(self, config: TrainConfig, order: TrainingOrder):
        """Reads the held-out sets. Raises StepFailed where they can't be scored."""
        sets = evaluation_batches(config.evaluation, config.model.sequence_length)
        self._config, self._order = config, order
        self._evaluator = Evaluator(sets, config.model, sequences_per_set=config.evaluation_sequences)
        watch = config.watch
        self._loads = ExpertLoads(sets, config.model, watch.load_sequences) if watch and watch.load_sequences else None

    @property
    def set_names(self) -> list[str]:
        """Names of the sets along the last axis of the loads."""
        return self._loads.names if self._loads else []

    def __call__(self, state: TrainState, done: int) -> Evaluated:
        """Evaluates the state after `done` updates. Must run under `jax.set_mesh(device_mesh())`, on every rank."""
        given = state.parameters, state.qb_betas
        held_out, watch = self._evaluator(*given), self._config.watch
        if watch is None:
            return Evaluated(held_out)
        early = done <= watch.with_drops_until * self._config.num_steps
        with_drops = self._evaluator(*given, with_drops=True) if early else None
        loads = self._loads(*given) if self._loads else None
        if not watch.seen_sequences:
            return Evaluated(held_out, with_drops, loads=loads)
        rows, steps = self._seen(done, watch.seen_sequences)
        seen_loss = float(row_nats(*given, rows, self._config.model).sum() / rows.mask.sum())
        return Evaluated(held_out, with_drops, seen_loss, steps, loads)

    def _seen(self, done: int, wanted: int) -> tuple[Rows, tuple[int, int]]:
        """So many sequences of updates 0 to done - 1, evenly spread over them, and the first and last of these updates."""
        size = self._config.batch_sequences
        places = [place * done * size // wanted for place in range(min(wanted, done * size))]
        batches = [self._order.batch(place // size, slice(place % size, place % size + 1)) for place in places]
        tokens = np.concatenate([each.tokens for each in batches])
        segments = np.concatenate([each.segment_ids for each in batches])
        mask = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] >= 0)
        return Rows(tokens, segments, mask), (places[0] // size + 1, places[-1] // size + 1)
