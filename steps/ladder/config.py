"""From a rung of the ladder's rule to the config that trains it."""

from marin_exec import InputPath
from steps.ladder.rule import RungSpec
from steps.train.language_model import OptimizerConfig, TrainConfig
from steps.train.watch_config import SpikeConfig, WatchConfig


def ladder_config(
    spec: RungSpec,
    *,
    tokens: InputPath,
    mixture: InputPath,
    evaluation: InputPath,
    evaluation_sequences: int | None = None,
    seed: int = 0,
    simulated_budget_tokens: int | None = None,
    watch: WatchConfig | None = None,
    spikes: SpikeConfig | None = None,
) -> TrainConfig:
    """Returns the training config of a rung; all rungs and the hero differ in what the rule decides and nothing else.

    Args:
        spec: what the rule gives the rung's width.
        tokens: token store to train on.
        mixture: mixture over that store.
        evaluation: token store of the held-out sets.
        evaluation_sequences: at most so many of each held-out set; None evaluates on all.
        seed: of initial parameters and data order.
        simulated_budget_tokens: of the run that the rung stands for, whose epochs it simulates; None simulates none.
        watch: what is watched besides losses.
        spikes: which updates are left out.
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
        simulated_budget_tokens=simulated_budget_tokens,
        watch=watch,
        spikes=spikes,
    )
