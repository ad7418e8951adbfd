"""Forecasts on public figures: the published table, a rung held out, the run above the ladder; and coverage where the law is known.

No training: the losses are those of marin-community/marin issue 8435, packaged with `steps.forecast.public_figures`. The
simulated ladders are drawn from laws of a wider family than the fit's own; their target has 340 times the last rung's compute, as
the hero run had.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.figures import Figures
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
NUM_SIMULATED = 40
SIMULATED_MARKS = [0.1 * k for k in range(1, 11)]
SIMULATED_FLOPS = (2.6e19, 1.7e20, 1.4e21, 7.7e21)
SIMULATED_TARGET = 2.6e24


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
    _simulated(figures)
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


@dataclass(frozen=True)
class _Law:
    """One simulated ladder's truth."""

    asymptote: float
    gap: float
    """ln(loss - E) of a run of the smallest rung's compute, at its end."""
    exponent: float
    tilt: float
    course: tuple[float, float, float]
    """Of ln g, of g, and of a burn-in that ends by 20 % of a run."""

    def __call__(self, flops: float, mark: float, own: float) -> float:
        early, late, burn_in = self.course
        scale = np.log(flops / SIMULATED_FLOPS[0])
        along = -early * np.log(mark) + late * (1 - mark) + burn_in * np.exp(-mark / 0.06)
        return float(self.asymptote + np.exp(self.gap - (self.exponent - self.tilt * (1 - mark)) * scale + along + own))


def _simulated(figures: Figures) -> None:
    """How often the intervals hold the final loss and the whole course of a run, over ladders of known laws."""
    rng = np.random.default_rng(0)
    end = {"80%": 0, "95%": 0}
    course: list[dict[str, Any]] = []
    errors = []
    for _ in range(NUM_SIMULATED):
        law = _Law(
            asymptote=float(rng.normal(1.5, 0.2)),
            gap=float(rng.normal(0.4, 0.1)),
            exponent=float(rng.uniform(0.06, 0.12)),
            tilt=float(rng.uniform(0.0, 0.015)),
            course=(float(rng.uniform(0.01, 0.05)), float(rng.uniform(0.1, 0.3)), float(rng.uniform(0.0, 0.2))),
        )
        rungs = [_run(law, flops, rng) for flops in SIMULATED_FLOPS]
        target = _run(law, SIMULATED_TARGET, rng)
        marks = JointSmooth(computes=("flops",)).forecast(rungs, target.flops, SIMULATED_MARKS).marks
        rows = [scored(mark, target.losses[mark.progress]) for mark in marks]
        course += rows
        errors.append(rows[-1]["error"])
        for level in end:
            end[level] += rows[-1]["within"][level]
    figures.add("simulated ladders", NUM_SIMULATED, "ladders")
    # 40 draws of 80 % lie in 0.65 to 0.93, of 95 % above 0.85, in all but one case of a hundred.
    figures.add("simulated: final losses in the 80 % interval", end["80%"] / NUM_SIMULATED, "share", at_least=0.65)
    figures.add("simulated: final losses in the 95 % interval", end["95%"] / NUM_SIMULATED, "share", at_least=0.85)
    figures.add("simulated: all marks in the 95 % interval", summary(course).coverage["95%"], "share", at_least=0.85)
    figures.add("simulated: bias of the final loss, predicted less actual", float(np.mean(errors)), "nats/token")


def _run(law: _Law, flops: float, rng: np.random.Generator) -> Curve:
    own = 0.003 * rng.standard_normal()
    noise = 0.008 * rng.standard_normal(len(SIMULATED_MARKS)) * (1 - 0.95 * np.array(SIMULATED_MARKS))
    losses = {mark: law(flops, mark, own) + float(each) for mark, each in zip(SIMULATED_MARKS, noise, strict=True)}
    return Curve(f"{flops:.1e}", 10_000, {"flops": flops}, losses)


if __name__ == "__main__":
    raise SystemExit(main())
