"""From a rung of the ladder's rule to the config that trains it."""

from marin_exec import InputPath
from steps.ladder.rule import RungSpec
from steps.train.language_model import OptimizerConfig, TrainConfig


def ladder_config(
    spec: RungSpec,
    *,
    tokens: InputPath,
    mixture: InputPath,
    evaluation: InputPath,
    evaluation_sequences: int | None = None,
    seed: int = 0,
) -> TrainConfig:
    """Returns the training config of a rung; all rungs and the hero differ in what the rule decides and nothing else.

    Args:
        spec: what the rule gives the rung's width.
        tokens: token store to train on.
        mixture: mixture over that store.
        evaluation: token store of the held-out sets.
        evaluation_sequences: at most so many of each held-out set; None evaluates on all.
        seed: of initial parameters and data order.
    """
    return TrainConfig(
        model=spec.model,
        optimizer=OptimizerConfig(learning_rate=spec.learning_rate, adam_learning_rate=spec.adam_learning_rate),
        tokens=tokens,
        mixture=mixture,
        evaluation=evaluation,
        batch_sequences=spec.batch_sequences,
        num_steps=spec.num_steps,
        evaluation_sequences=evaluation_sequences,
        seed=seed,
    )
