"""Forecasts on public figures: the published table, a rung held out, the run above the ladder; and coverage where the law is known.

No training: the losses are those of marin-community/marin issue 8435, packaged with `steps.forecast.public_figures`, and those of
simulated ladders (`benchmarks.model._simulated_ladders`).
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.figures import Figures
from benchmarks.model._simulated_ladders import LARGE, SMALL, Scale, drawn
from steps.forecast.curves import Curve
from steps.forecast.holdout import held_out_rows
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.method import Method
from steps.forecast.points import MeasuredRun
from steps.forecast.public_figures import PublicFiguresConfig, ladder_of, read_figures, target_flops, target_of
from steps.forecast.scoring import Summary, at_progress, scored, summary
from steps.forecast.unfinished import LastLine

MARKS = [round(0.05 * k, 6) for k in range(1, 21)]
MIXTURE_CHANGED_AT = 108_000
PUBLISHED = MatchedProgress(asymptote=1.5, asymptote_range=(1.3, 1.7), unfinished=LastLine())
JOINT = JointSmooth()
METHODS: dict[str, Method] = {"matched_progress_v1": PUBLISHED, "joint_smooth_v1": JOINT}


def main() -> int:
    figures = Figures()
    public = read_figures(PublicFiguresConfig())
    ladder, flops = ladder_of(public), target_flops(public)
    started = time.process_time()
    made = {name: method.forecast(ladder, flops, MARKS) for name, method in METHODS.items()}
    seconds = time.process_time() - started
    _table(figures, public, ladder, flops)
    for name, forecast in made.items():
        final = forecast.marks[-1]
        figures.add(f"{name}: hero at 100 %", final.loss, "nats/token")
        figures.add(f"{name}: widest range at 100 %", final.high - final.low, "nats/token")
    _sources(figures, made["joint_smooth_v1"].details)
    _asymptotes(figures, ladder, flops)
    _held_out(figures, ladder)
    _hero(figures, made, target_of(public))
    # Of 40 draws of 80 % fewer than 0.65, and of 20 fewer than 0.6, come in one case of a hundred.
    _simulated(figures, LARGE, 40, lowest=0.65)
    _simulated(figures, SMALL, 20, lowest=0.6)
    figures.add("both forecasts of the hero", seconds, "CPU s", at_most=20)
    return figures.exit_code


def _table(figures: Figures, public: Mapping[str, Any], ladder: list[Curve], flops: Mapping[str, int]) -> None:
    """The published predictions and leave-one-out ranges, all of their digits."""
    fits = PUBLISHED.forecast(ladder, flops, MARKS).details["fits"]
    rows = public["published_forecast"]["rows"]
    ours = [[fit["loss"], min(fit["leave_one_out"]), max(fit["leave_one_out"])] for fit in fits]
    differences = np.abs(np.array(ours) - np.array([row[1:] for row in rows]))
    figures.add("published table: marks", len(rows), "marks", at_least=20)
    figures.add("published table: largest difference x 1e9", 1e9 * float(differences.max()), "nats/token", at_most=1e-3)


def _sources(figures: Figures, details: Mapping[str, Any]) -> None:
    for name, deviation in details["deviation_at_the_end"].items():
        figures.add(f"joint_smooth_v1: deviation at 100 % from {name.replace('_', ' ')}", deviation, "nats/token")
    figures.add("joint_smooth_v1: asymptote, posterior mean", details["asymptote"]["mean"], "nats/token")
    figures.add("joint_smooth_v1: asymptote, posterior deviation", details["asymptote"]["deviation"], "nats/token")
    for name, weight in details["compute_weights"].items():
        figures.add(f"joint_smooth_v1: weight of the convention {name}", weight, "share")
    for rung in details["unfinished"]:
        figures.add(f"joint_smooth_v1: final loss of {rung['rung']}", rung["final_loss"], "nats/token")
    figures.add("joint_smooth_v1: noise of an evaluation at the peak rate", details["noise"]["deviation"], "nats/token")


def _asymptotes(figures: Figures, ladder: list[Curve], flops: Mapping[str, int]) -> None:
    """What other priors would have said."""
    for mean, deviation in ((1.4, 0.2), (1.6, 0.2), (1.5, 0.1), (1.5, 0.4)):
        final = JointSmooth(asymptote_mean=mean, asymptote_deviation=deviation).forecast(ladder, flops, MARKS).marks[-1]
        figures.add(f"joint_smooth_v1 with asymptote {mean} +- {deviation}: hero at 100 %", final.loss, "nats/token")


def _held_out(figures: Figures, ladder: list[Curve]) -> None:
    """d2048 from the three smaller rungs, on the 16 marks that it reached; d1536 from two (only the joint fit can)."""
    scores = {name: summary(held_out_rows(method, ladder)) for name, method in METHODS.items()}
    for name, score in scores.items():
        _add(figures, f"{name}: d2048 held out", score)
    figures.add(
        "d2048 held out: error of the joint fit over that of matched progress",
        scores["joint_smooth_v1"].mean_absolute_error / scores["matched_progress_v1"].mean_absolute_error,
        "ratio",
        at_most=1.0,
    )
    figures.add(
        "d2048 held out: share in the joint fit's 95 %",
        scores["joint_smooth_v1"].coverage["95%"],
        "share",
        at_least=0.9,
    )
    _add(figures, "joint_smooth_v1: d1536 from d768 and d1024", summary(held_out_rows(JOINT, ladder[:3])))


def _hero(figures: Figures, made: Mapping[str, Any], hero: MeasuredRun) -> None:
    """The public evaluations from the first mark to the change of mixture, and those after it."""
    inside = [point for point in hero.points if hero.progress(point) >= MARKS[0]]
    scopes = {
        "before the mixture changed": [point for point in inside if point.step < MIXTURE_CHANGED_AT],
        "from 10 % to the change of mixture": [point for point in inside if 38_000 <= point.step < MIXTURE_CHANGED_AT],
        "after the mixture changed (not registered for)": [
            point for point in inside if point.step >= MIXTURE_CHANGED_AT
        ],
    }
    for scope, points in scopes.items():
        for name, forecast in made.items():
            rows = [scored(at_progress(forecast.marks, hero.progress(point)), point.loss) for point in points]
            _add(figures, f"{name}: hero {scope}", summary(rows))


def _add(figures: Figures, what: str, score: Summary) -> None:
    figures.add(f"{what}: points", score.num_points, "points")
    figures.add(f"{what}: bias, predicted less actual", score.bias, "nats/token")
    figures.add(f"{what}: mean absolute error", score.mean_absolute_error, "nats/token")
    for level, share in score.coverage.items():
        figures.add(f"{what}: in {'the range' if level == 'range' else level}", share, "share")


def _simulated(figures: Figures, scale: Scale, num_ladders: int, lowest: float) -> None:
    """How often the intervals hold the final loss and the whole course of a run, over ladders of known laws."""
    rng = np.random.default_rng(0)
    methods = {"joint": JointSmooth(computes=("flops",)), "matched": replace(PUBLISHED, unfinished=None)}
    rows: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in methods}
    for _ in range(num_ladders):
        rungs, target = drawn(scale, rng)
        for name, method in methods.items():
            made = method.forecast(rungs, target.flops, scale.marks)
            rows[name].append([scored(mark, target.losses[mark.progress]) for mark in made.marks])
    ends = summary([each[-1] for each in rows["joint"]])
    course = {name: summary([row for each in found for row in each]) for name, found in rows.items()}
    what = f"simulated at {scale.name}"
    figures.add(f"{what}: ladders", num_ladders, "ladders")
    figures.add(f"{what}: final losses in 80 %", ends.coverage["80%"], "share", at_least=lowest)
    figures.add(f"{what}: final losses in 95 %", ends.coverage["95%"], "share", at_least=0.85)
    figures.add(f"{what}: all marks in 80 %", course["joint"].coverage["80%"], "share")
    figures.add(f"{what}: all marks in 95 %", course["joint"].coverage["95%"], "share", at_least=0.85)
    figures.add(f"{what}: bias of the final loss, predicted less actual", ends.bias, "nats/token")
    figures.add(
        f"{what}: error at all marks over that of matched progress",
        course["joint"].mean_absolute_error / course["matched"].mean_absolute_error,
        "ratio",
        at_most=1.0,
    )


if __name__ == "__main__":
    raise SystemExit(main())
