"""Two forecasts of Marin's 535B-A23B run from the public losses of its ladder, and the losses that came: a minute on a laptop.

No training. The run's losses up to a third of its course were known when `joint_smooth_v1` was written: its scores are no
blind test (docs/forecast.md).
"""

from marin_exec import Step, main
from steps.forecast.curves import Conditions
from steps.forecast.holdout import HoldoutConfig, holdout
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.public_figures import PublicFiguresConfig, public_figures, read_figures, target_flops, target_of
from steps.forecast.register import RegisterConfig, Target, register
from steps.forecast.score_points import Regime, ScorePointsConfig, score_points
from steps.forecast.unfinished import LastLine
from steps.report.forecasts import ForecastsReportConfig, RegisteredForecast, forecasts_report

METHODS = {
    "joint": JointSmooth(),
    "matched": MatchedProgress(asymptote=1.5, asymptote_range=(1.3, 1.7), unfinished=LastLine()),
}
FIRST_STEP = 20_000  # 5 % of the run, where the forecasts begin
NEW_MIXTURE = Regime(
    name="mixture of September",
    from_step=108_000,
    conditions=Conditions(
        context_length=4096, mixture="best_mixture_996f489106c7b922", metric="eval_dropless/paloma/macro_loss"
    ),
    why="new mixture weights from step 108,000 on",
)


def pipeline() -> list[Step]:
    packaged = PublicFiguresConfig()
    published = read_figures(packaged)
    hero, compute = target_of(published), target_flops(published)
    target = Target(
        name=hero.name,
        num_steps=hero.num_steps,
        flops=compute["flops"],
        flops_with_lm_head=compute["flops_with_lm_head"],
    )
    figures = Step("losses", public_figures, packaged)
    forecasts = []
    for name, method in METHODS.items():
        made = Step(f"forecast/{name}", register, RegisterConfig(curves=figures, method=method, target=target))
        points = ScorePointsConfig(forecast=made, points=figures, first_step=FIRST_STEP, regimes=(NEW_MIXTURE,))
        scored = Step(f"score/{name}", score_points, points)
        tried = Step(f"holdout/{name}", holdout, HoldoutConfig(curves=figures, method=method))
        forecasts.append(RegisteredForecast(forecast=made, score=scored, holdout=tried))
    page = ForecastsReportConfig(title="Forecasts of Marin's 535B-A23B run", forecasts=tuple(forecasts))
    return [Step("report/forecasts", forecasts_report, page)]


if __name__ == "__main__":
    main(pipeline)
