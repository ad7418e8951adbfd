"""Scores one checkpoint of a training run on held-out sets, dropless. Loads no jax until it runs."""

import dataclasses
import json
from dataclasses import dataclass

from marin_exec import InputPath, Out, kind
from steps.config_checks import check_number
from steps.files import write_bytes


@dataclass(frozen=True, kw_only=True)
class CheckpointEvaluationConfig:
    """A checkpoint and what it is scored on."""

    checkpoint: InputPath
    """A checkpoint: `train_step / "checkpoints/step-400"`, or a milestone of a run that is still going."""
    evaluation: InputPath
    """Token store of the held-out sets (kind tokenize/cache)."""
    evaluation_sequences: int | None = None
    """Sequences taken from the front of each held-out set; None takes all. As in training for comparable figures."""

    def __post_init__(self) -> None:
        check_number(self, "evaluation_sequences", low=1)


@dataclass(frozen=True)
class CheckpointEvaluation:
    """Dropless held-out losses of a checkpoint."""

    step: int
    """Updates that are in the checkpoint."""
    macro_loss: float
    """Unweighted mean over the sets, nats a token."""
    micro_loss: float
    """Mean over all targets, nats a token."""
    macro_bpb: float
    """Unweighted mean of the sets' bits a byte."""
    micro_bpb: float
    """Bits a byte of all scored text together."""
    num_sets: int
    """Held-out sets scored."""
    num_targets: int
    """Tokens predicted over all sets."""


@kind("evaluate/checkpoint", version=1)
def evaluate_checkpoint(config: CheckpointEvaluationConfig, out: Out) -> CheckpointEvaluation:
    """Writes `evaluation.json`: step, losses over all sets and by set, and the same under Levanter's tagged names.

    Raises:
        StepFailed: the checkpoint is missing, damaged or of another model, or the sets do not fit it.
    """
    from steps.evaluate.scoring import score_checkpoint

    step, evaluation = score_checkpoint(config.checkpoint, config.evaluation, config.evaluation_sequences)
    page = {"step": step, **dataclasses.asdict(evaluation), "tagged": evaluation.tagged("eval_dropless")}
    write_bytes(out.file("evaluation.json"), json.dumps(page, indent=1, sort_keys=True).encode())
    return CheckpointEvaluation(
        step=step,
        macro_loss=evaluation.macro_loss,
        micro_loss=evaluation.micro_loss,
        macro_bpb=evaluation.macro_bpb,
        micro_bpb=evaluation.micro_bpb,
        num_sets=len(evaluation.sets),
        num_targets=sum(each.num_targets for each in evaluation.sets.values()),
    )
