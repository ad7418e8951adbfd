"""A ladder whose runs follow a power law exactly, a target, and the score of a forecast that it waited for - or not."""

import json
from dataclasses import dataclass
from pathlib import Path

from marin_exec import Out, Step, main
from steps.forecast.forecast import ForecastConfig, NamedRun, forecast
from steps.forecast.score import ScoreConfig, score


@dataclass(frozen=True)
class Params:
    waits: bool = True
    asymptote: float = 1.5


@dataclass(frozen=True)
class LawConfig:
    flops: int


def law_run(config: LawConfig, out: Out) -> dict[str, float]:
    rows = [{"progress": k / 20, "macro_loss": 1.5 + 40.0 * (config.flops * k / 20) ** -0.1} for k in range(1, 21)]
    Path(out.file("evals.jsonl")).write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path(out.file("run.json")).write_text(json.dumps({"num_steps": 400, "flops_with_lm_head": config.flops}))
    return {"macro_loss": rows[-1]["macro_loss"]}


def pipeline(params: Params) -> list[Step]:
    rungs = tuple(
        NamedRun(name=f"r{flops:.0e}", run=Step(f"rung/{i}", law_run, LawConfig(flops)))
        for i, flops in enumerate((10**12, 2 * 10**12, 4 * 10**12, 8 * 10**12))
    )
    target = 24 * 10**12
    config = ForecastConfig(
        rungs=rungs,
        target_name="target",
        target_flops=target,
        asymptote=params.asymptote,
        asymptote_range=(params.asymptote - 0.1, params.asymptote + 0.1),
    )
    made = Step("forecast", forecast, config)
    run = Step("target", law_run, LawConfig(target), after=(made,) if params.waits else ())
    return [Step("score", score, ScoreConfig(forecast=made, run=run))]


if __name__ == "__main__":
    main(pipeline)
