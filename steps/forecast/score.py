"""forecast/score: how far a forecast was off, for a run that waited for it.

A forecast counts only if the run's first attempt had it before it began: the engine's record of the run says what that
attempt waited for, and a forecast that is not among it is refused. A later, better method cannot pass for an earlier one.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from marin_exec import InputPath, Out, StepFailed, kind
from steps.files import read_bytes, write_json
from steps.forecast.applicability import Applicability
from steps.forecast.curves import Curve, read_curve
from steps.forecast.run_curves import run_conditions
from steps.forecast.scoring import forecast_marks, scored, summary


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """A forecast and the run that it was made for."""

    forecast: InputPath
    """Output of forecast/register or forecast/matched_progress."""
    run: InputPath
    """Output of train/language_model, declared with `after=[forecast]`."""


@dataclass(frozen=True)
class ScoreResult:
    """Losses in nats a token; errors are predicted less actual."""

    predicted_loss: float
    actual_loss: float
    error: float
    last_rung_loss: float
    drop: float
    """Last rung's final loss less the run's."""
    error_share_of_drop: float | None
    """None if the run is no better than the last rung: there is no drop to compare with."""
    within_range: bool
    """Whether the actual final loss lies in the forecast's range."""
    mean_absolute_error: float
    """Over all progress marks."""
    marks_within_range: int
    num_marks: int
    forecast_digest: str
    """Output digest of the forecast that the run's first attempt recorded."""


@kind("forecast/score", version=1, reads_lineage=True)
def score(config: ScoreConfig, out: Out) -> ScoreResult:
    """Writes `score.json`: predicted, actual and error at every progress mark.

    Raises:
        StepFailed: the run's first attempt did not wait for this forecast, or the run is not the one that it was made for:
            another compute, or outside what a registered forecast says that it applies to.
    """
    digest = recorded_forecast(config.forecast, config.run)
    page = json.loads(read_bytes(f"{config.forecast}/forecast.json"))
    name = page["target"]["name"]
    curve = read_curve(name, config.run, every=page["evaluate_every"])
    flops = curve.compute(page["compute"])
    if flops != page["target"]["flops"]:
        raise StepFailed(
            f"score: the run has {flops:.6g} FLOPs ({page['compute']}), the forecast is for {name} at "
            f"{page['target']['flops']:.6g}; score the run that it was made for"
        )
    if "applicability" in page:
        _check_applicability(Applicability.from_json(page["applicability"]), curve, config.run)
    rows: list[dict[str, Any]] = []
    for mark in forecast_marks(page):
        actual = curve.losses.get(mark.progress)
        if actual is None:
            raise StepFailed(
                f"score: {name} was not evaluated at {mark.progress:.0%} of its run; the forecast has that mark"
            )
        rows.append(scored(mark, actual))
    last_rung = page["last_rung_loss"] if "last_rung_loss" in page else page["rungs"][-1]["losses"][-1][1]
    final = rows[-1]
    drop = last_rung - final["actual"]
    result = ScoreResult(
        predicted_loss=final["predicted"],
        actual_loss=final["actual"],
        error=final["error"],
        last_rung_loss=last_rung,
        drop=drop,
        error_share_of_drop=abs(final["error"]) / drop if drop > 0 else None,
        within_range=final["within_range"],
        mean_absolute_error=sum(abs(row["error"]) for row in rows) / len(rows),
        marks_within_range=sum(row["within_range"] for row in rows),
        num_marks=len(rows),
        forecast_digest=digest,
    )
    over_marks = {"over_marks": asdict(summary(rows))} if "applicability" in page else {}
    write = {"target": name, "method": page["method"], **asdict(result), **over_marks, "marks": rows}
    write_json(out.file("score.json"), write)
    return result


def _check_applicability(registered: Applicability, curve: Curve, path: str) -> None:
    """Checks that a run is what a registered forecast is for, by its description and its record.

    Raises:
        StepFailed: it is not; the message names each field that differs.
    """
    differing = registered.differences(
        run=registered.run,  # that it is this run is known from what it waited for
        num_steps=curve.num_steps,
        conditions=run_conditions(curve.name, path),
        progress=registered.first_mark,
    )
    if differing:
        raise StepFailed(
            f"score: {curve.name} ({path}) is outside what the forecast was registered for: {'; '.join(differing)}"
        )


def recorded_forecast(forecast_path: str, run_path: str) -> str:
    """Returns the output digest of the forecast that a run's first attempt waited for.

    Raises:
        StepFailed: the run waited for no such forecast: it was registered too late, or replaced since.
    """
    from marin_exec.lineage import record_at

    forecast, run = record_at(forecast_path), record_at(run_path)
    known = {bound.output_digest: bound for bound in run.first_after}
    if forecast.output_digest in known:
        return forecast.output_digest
    waited = ", ".join(f"{bound.name} {bound.output_digest[:16]}" for bound in run.first_after) or "nothing"
    raise StepFailed(
        f"score: forecast {forecast.name} ({forecast.output_digest[:16]}) was not known to {run.name} when its first attempt "
        f"began; that attempt waited for {waited}. A forecast made after the run began is not scored: declare "
        f"`after=[forecast]` on the run, and score the forecast that it then waited for"
    )
