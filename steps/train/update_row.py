"""An update's row of `metrics.jsonl`: plain finite values that equal runs share."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from marin_exec import StepFailed
from steps.model.dispatch.drops import drop_metrics
from steps.train.describing import progress_of
from steps.train.language_model import TrainConfig
from steps.train.optimizer import LearningRates

_LIMITS = ("skip_step_loss_threshold", "skip_step_grad_norm_threshold")


def update_row(
    config: TrainConfig, done: int, metrics: Mapping[str, np.ndarray], rates: LearningRates
) -> dict[str, Any]:
    """Returns the row of an update.

    Args:
        config: of the run.
        done: updates so far, this one included.
        metrics: what `steps.train.step.update` returned, on the host. What was dropped on the way to the experts is summed
            over the layers here, in 64 bits.
        rates: that it was made at.
    """
    by_layer = ("sender_dropped", "receiver_dropped")
    values: dict[str, Any] = {name: value.item() for name, value in metrics.items() if name not in by_layer}
    if config.model.dispatch is not None:
        tokens = config.batch_sequences * config.model.sequence_length
        sender_L, receiver_L = (metrics[name] for name in by_layer)
        drops = drop_metrics(sender_L, receiver_L, tokens * config.model.experts_per_token)
        values |= {name.removeprefix("moe/"): value for name, value in drops.items()}
    for name in _LIMITS:
        if values.get(name) == math.inf:  # not before half of the window has been seen
            values[name] = None
    row = {"step": done, **progress_of(config, done), **values}
    row |= {"learning_rate": rates.hyperball, "adam_learning_rate": rates.adam}
    return row | ({"gate_router_decay": rates.decay} if config.optimizer.gate_router_decay else {})


def check_finite(row: Mapping[str, Any], last: Mapping[str, Any], where: str, num_steps: int) -> None:
    """Checks that a row's values are finite.

    Raises:
        StepFailed: one is not; the message names it, the update and what the update before (`last`, perhaps empty) came to.
    """
    unfit = [name for name, value in row.items() if value is not None and not math.isfinite(value)]
    if unfit:
        raise StepFailed(
            f"{where}: update {row['step']} of {num_steps} gave {unfit[0]} = {row[unfit[0]]} (not finite: "
            f"{', '.join(unfit)}); the update before had loss {last.get('loss')}, grad_norm {last.get('grad_norm')}, learning rate "
            f"{last.get('learning_rate')}. Published checkpoints stay. Lower the learning rates or lengthen the warm-up"
        )
