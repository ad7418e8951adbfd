"""The ladder with all of the hero run's features: four small rungs, a forecast that is registered, and then the rung above.

    marin-exec run experiments/ladder.py      some 15 CPU minutes of training, after the quickstart's data steps

Text, tokenizer and token stores are the quickstart's, from the same store. The geometry is the hero run's at widths 32 to
112: heads of 16, 16 experts of which 2 are chosen, latent, expert and shared width = width / 2, a window of half the context,
the last layer global, four virtual shards with capacity 1.15 at both ends. Tokens are 3 for each active or output-head
parameter. Every rung sees data in the same order, and of each cell the share that makes it repeat as often as the rung above does.
"""

from dataclasses import replace
from typing import Any

from quickstart import VOCABULARY_SIZE
from quickstart import pipeline as quickstart

from marin_exec import Step, main
from marin_exec.step import topological
from steps.forecast.forecast import NamedRun
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.register import RegisterConfig, Target, register
from steps.forecast.run_curves import RunCurvesConfig, run_curves
from steps.forecast.score import ScoreConfig, score
from steps.ladder.config import ladder_config
from steps.ladder.rule import HERO_WIDTH, RUNG_WIDTHS, hero_rung
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.model.counts import training_flops
from steps.train.language_model import TrainConfig, train_language_model
from steps.train.threads import train_resources
from steps.train.watch_config import SpikeConfig, WatchConfig

SEQUENCE_LENGTH = 64
RUNGS = [hero_rung(width, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH) for width in RUNG_WIDTHS]
ABOVE = hero_rung(HERO_WIDTH, vocabulary_size=VOCABULARY_SIZE, sequence_length=SEQUENCE_LENGTH)
EVALUATION_SEQUENCES = 32  # of each held-out set, at most
METHODS = {
    "joint": JointSmooth(),
    "matched": MatchedProgress(asymptote=1.5, asymptote_range=(1.0, 2.0), compute="flops_with_lm_head"),
}


def ablations(config: TrainConfig) -> dict[str, TrainConfig]:
    """The same run without one thing each."""
    return {
        "no-balancing": replace(config, model=replace(config.model, balancing="none")),
        "no-z-loss": replace(config, z_loss=0.0),
    }


def pipeline() -> list[Step]:
    texts = {step.name: step for step in topological(quickstart())}
    tokens, evaluation = texts["tokens/train"], texts["tokens/evaluation"]
    phases = (Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=1.0), start_fraction=0.8))
    weights = WeightsConfig(
        tokens=tokens, sequence_length=SEQUENCE_LENGTH, phases=phases, block_sequences=256, budgets_tokens=(ABOVE.tokens,),
    )  # fmt: skip
    mixture = Step("ladder/mixture", mixture_weights, weights)
    data: dict[str, Any] = {
        "tokens": tokens, "mixture": mixture, "evaluation": evaluation, "evaluation_sequences": EVALUATION_SEQUENCES,
        "watch": WatchConfig(load_sequences=8, with_drops_until=0.25), "spikes": SpikeConfig(),
    }  # fmt: skip

    configs = [ladder_config(spec, **data, simulated_budget_tokens=ABOVE.tokens) for spec in RUNGS]
    one_core = train_resources(1)
    runs = tuple(
        NamedRun(name=spec.name, run=Step(f"rung/{spec.name}", train_language_model, config, resources=one_core))
        for spec, config in zip(RUNGS, configs, strict=True)
    )
    without = [
        Step(f"rung/{RUNGS[1].name}-{name}", train_language_model, config, resources=one_core)
        for name, config in ablations(configs[1]).items()
    ]

    curves = Step("ladder/curves", run_curves, RunCurvesConfig(runs=runs))
    model, horizon = ABOVE.model, ABOVE.tokens
    target = Target(
        name=ABOVE.name, num_steps=ABOVE.num_steps, flops=training_flops(model, horizon),
        flops_with_lm_head=training_flops(model, horizon, with_lm_head=True),
    )  # fmt: skip
    forecasts = {
        name: Step(f"ladder/forecast-{name}", register, RegisterConfig(curves=curves, method=method, target=target))
        for name, method in METHODS.items()
    }
    above = Step(
        f"rung/{ABOVE.name}", train_language_model, ladder_config(ABOVE, **data),
        resources=train_resources(2), after=tuple(forecasts.values()),
    )  # fmt: skip
    scores = [
        Step(f"ladder/score-{name}", score, ScoreConfig(forecast=made, run=above)) for name, made in forecasts.items()
    ]
    return [*scores, *without]


if __name__ == "__main__":
    main(pipeline)
