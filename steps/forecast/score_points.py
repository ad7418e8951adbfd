"""forecast/score_points: how far a registered forecast is off, for a run that was trained elsewhere and may still go on.

That the forecast came first cannot be proved here, as `forecast/score` does for runs of this engine. What can be is that a
loss is one that the forecast was made for: run, horizon, context length, mixture, metric, and a share of the run that has a
forecast. A loss outside is refused, unless the config declares a regime for it: then it is scored apart, and never counted
as the registered forecast's own.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind
from steps.config_checks import check_number
from steps.files import read_bytes, write_json
from steps.forecast.applicability import Applicability
from steps.forecast.curves import Conditions
from steps.forecast.points import MeasuredRun, Point, read_points
from steps.forecast.scoring import Summary, at_progress, forecast_marks, scored, summary

REGISTERED = "registered"
"""Name of the regime that the forecast was made for."""


@dataclass(frozen=True, kw_only=True)
class Regime:
    """A change on the way that the forecast did not foresee, from which on losses are scored apart."""

    name: str
    """For pages, e.g. "mixture of September"."""
    from_step: int
    """First step that the conditions hold for."""
    conditions: Conditions
    """What the run is trained and evaluated on from there."""
    why: str
    """What changed, for the record."""


@dataclass(frozen=True, kw_only=True)
class ScorePointsConfig:
    forecast: InputPath
    """Output of forecast/register."""
    points: InputPath
    """Output of forecast/public_figures, or any directory with a `points.json`."""
    first_step: int | None = None
    """Points before this step are not looked at; None looks at all."""
    last_step: int | None = None
    """Points after this step are not looked at."""
    regimes: tuple[Regime, ...] = ()
    """Declared changes, in the order of their steps."""

    def __post_init__(self) -> None:
        check_number(self, "first_step", "last_step", low=0)
        starts = [regime.from_step for regime in self.regimes]
        names = [REGISTERED, *(regime.name for regime in self.regimes)]
        if starts != sorted(set(starts)) or len(set(names)) < len(names):
            raise ConfigError(
                f"ScorePointsConfig.regimes: {list(zip(names[1:], starts, strict=True))}; rising steps are needed, and names of "
                f'their own, none of them "{REGISTERED}"'
            )


@dataclass(frozen=True)
class ScorePointsResult:
    """Errors are predicted less actual, nats a token."""

    method: str
    target: str
    registered: Summary | None
    """Over the points that the forecast was made for; None if there are none."""
    regimes: dict[str, Summary]
    """Over the points of each declared regime that has any."""
    last_step: int
    last_error: float


@kind("forecast/score_points", version=1)
def score_points(config: ScorePointsConfig, out: Out) -> ScorePointsResult:
    """Writes `score.json`: predicted, actual, error and intervals at every point, with its regime.

    Raises:
        StepFailed: the forecast was not registered, no point is left, or a point is outside what the forecast applies to; the
            message names each field that differs.
    """
    page = json.loads(read_bytes(f"{config.forecast}/forecast.json"))
    if "applicability" not in page:
        raise StepFailed(
            f"score: {config.forecast} does not say what it applies to; make the forecast with forecast/register"
        )
    registered, marks = Applicability.from_json(page["applicability"]), forecast_marks(page)
    run = read_points(config.points)
    chosen = _chosen(config, run)
    rows: list[dict[str, Any]] = []
    for point in chosen:
        regime = next((each for each in reversed(config.regimes) if point.step >= each.from_step), None)
        _check(registered, run, point, regime)
        rows.append(
            {
                "step": point.step,
                "regime": regime.name if regime else REGISTERED,
                **scored(at_progress(marks, run.progress(point)), point.loss),
            }
        )
    names = (REGISTERED, *(regime.name for regime in config.regimes))
    by_regime = {name: [row for row in rows if row["regime"] == name] for name in names}
    summaries = {name: summary(found) for name, found in by_regime.items() if found}
    result = ScorePointsResult(
        method=page["method"],
        target=run.name,
        registered=summaries.pop(REGISTERED, None),
        regimes=summaries,
        last_step=rows[-1]["step"],
        last_error=rows[-1]["error"],
    )
    changes = [asdict(regime) for regime in config.regimes]
    write_json(out.file("score.json"), {**asdict(result), "declared_regimes": changes, "points": rows})
    return result


def _chosen(config: ScorePointsConfig, run: MeasuredRun) -> Sequence[Point]:
    last = run.num_steps if config.last_step is None else config.last_step
    chosen = [point for point in run.points if (config.first_step or 0) <= point.step <= last]
    if not chosen:
        raise StepFailed(
            f"score: none of the {len(run.points)} points of {run.name} lies in steps {config.first_step or 0:,} to {last:,}; "
            f"they are at {run.points[0].step:,} to {run.points[-1].step:,}"
        )
    return chosen


def _check(registered: Applicability, run: MeasuredRun, point: Point, regime: Regime | None) -> None:
    expected = replace(registered, conditions=regime.conditions) if regime else registered
    differing = expected.differences(
        run=run.name, num_steps=run.num_steps, conditions=point.conditions, progress=run.progress(point)
    )
    if differing:
        scope = f'regime "{regime.name}"' if regime else "the registered forecast"
        raise StepFailed(
            f"score: step {point.step:,} of {run.name} is outside {scope}: {'; '.join(differing)}. Leave it out by first_step "
            f"or last_step, or declare the regime that it belongs to"
        )
