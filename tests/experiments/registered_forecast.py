"""A ladder of runs that follow a power law, a forecast registered from it, and a run that waited for it: on the ladder's
mixture and context length, or on others."""

import json
from dataclasses import dataclass
from pathlib import Path

from marin_exec import InputPath, Out, Step, main
from steps.forecast.forecast import NamedRun
from steps.forecast.holdout import HoldoutConfig, holdout
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.register import RegisterConfig, Target, register
from steps.forecast.run_curves import RunCurvesConfig, run_curves
from steps.forecast.score import ScoreConfig, score

STEPS, TARGET_FLOPS = 400, 24 * 10**12


@dataclass(frozen=True)
class Params:
    target_mixture: str = "autumn"
    target_context: int = 128


@dataclass(frozen=True)
class TextConfig:
    text: str


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    flops: int
    mixture: InputPath
    evaluation: InputPath
    context: int = 128
    evaluation_sequences: int = 40


def text(config: TextConfig, out: Out) -> None:
    Path(out.file("text.txt")).write_text(config.text)


def law_run(config: RunConfig, out: Out) -> dict[str, float]:
    rows = []
    for k in range(1, 11):
        progress = k / 10
        loss = 1.5 + 40.0 * (config.flops * progress) ** -0.1
        sets = {name: {"loss": loss + shift} for name, shift in (("books", 0.1), ("code", -0.1))}
        rows.append({"progress": progress, "macro_loss": loss, "sets": sets})
    Path(out.file("evals.jsonl")).write_text("".join(json.dumps(row) + "\n" for row in rows))
    described = {"num_steps": STEPS, "flops": config.flops, "model": {"sequence_length": config.context}}
    Path(out.file("run.json")).write_text(json.dumps(described))
    return {"macro_loss": rows[-1]["macro_loss"]}


def pipeline(params: Params) -> list[Step]:
    mixtures = {name: Step(f"mixture/{name}", text, TextConfig(name)) for name in {"autumn", params.target_mixture}}
    sets = Step("sets", text, TextConfig("held out"))
    rungs = tuple(
        NamedRun(
            name=f"r{i}",
            run=Step(f"rung/{i}", law_run, RunConfig(flops=flops, mixture=mixtures["autumn"], evaluation=sets)),
        )
        for i, flops in enumerate((10**12, 2 * 10**12, 4 * 10**12, 8 * 10**12))
    )
    curves = Step("curves", run_curves, RunCurvesConfig(runs=rungs, evaluate_every=0.1))
    method = JointSmooth(computes=("flops",))
    target = Target(name="target", num_steps=STEPS, flops=TARGET_FLOPS)
    config = RegisterConfig(curves=curves, method=method, target=target)
    made = Step("forecast", register, config)
    tried = Step("holdout", holdout, HoldoutConfig(curves=curves, method=method))
    large = RunConfig(
        flops=TARGET_FLOPS, mixture=mixtures[params.target_mixture], evaluation=sets, context=params.target_context
    )
    run = Step("target", law_run, large, after=(made,))
    return [Step("score", score, ScoreConfig(forecast=made, run=run)), tried]


if __name__ == "__main__":
    main(pipeline)
