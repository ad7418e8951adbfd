"""Losses that came, beside what was forecast: errors, and how many lay in each interval.

Between two marks the forecast itself is interpolated, in a straight line: of the rungs nothing is known there that the
forecast did not use. Errors are predicted less actual: above 0 the run is better than forecast.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marin_exec import StepFailed
from steps.forecast.method import Band, MarkForecast


@dataclass(frozen=True)
class Summary:
    """Scores over several losses, nats a token."""

    num_points: int
    bias: float
    """Mean error, predicted less actual."""
    mean_absolute_error: float
    coverage: dict[str, float]
    """Share of the losses in each interval: "range" is the widest, the others are by their level, e.g. "80%"."""


def forecast_marks(page: Mapping[str, Any]) -> list[MarkForecast]:
    """Returns the marks of a `forecast.json`, ascending."""
    return [
        MarkForecast(
            row["progress"], row["loss"], row["low"], row["high"], tuple(Band(**band) for band in row.get("bands", ()))
        )
        for row in page["predictions"]
    ]


def at_progress(marks: Sequence[MarkForecast], progress: float) -> MarkForecast:
    """Returns the forecast at any share of the run from the first mark to the last, interpolated between its neighbours.

    Raises:
        StepFailed: the share is outside; nothing is extrapolated.
    """
    places = [mark.progress for mark in marks]
    if not places[0] <= progress <= places[-1]:
        raise StepFailed(
            f"score: progress {progress:.2%} is outside the forecast's marks, {places[0]:.0%} to {places[-1]:.0%}; "
            f"nothing is extrapolated"
        )
    after = bisect_left(places, progress)
    if places[after] == progress:
        return marks[after]
    a, b = marks[after - 1], marks[after]
    share = (progress - a.progress) / (b.progress - a.progress)

    def between(low: float, high: float) -> float:
        return low + share * (high - low)

    bands = tuple(
        Band(x.level, between(x.low, y.low), between(x.high, y.high)) for x, y in zip(a.bands, b.bands, strict=True)
    )
    return MarkForecast(progress, between(a.loss, b.loss), between(a.low, b.low), between(a.high, b.high), bands)


def scored(forecast: MarkForecast, actual: float) -> dict[str, Any]:
    """Returns one row of a score: forecast, actual, error, and which intervals hold it."""
    row: dict[str, Any] = {
        "progress": forecast.progress,
        "predicted": forecast.loss,
        "low": forecast.low,
        "high": forecast.high,
        "actual": actual,
        "error": forecast.loss - actual,
        "within_range": forecast.low <= actual <= forecast.high,
    }
    if forecast.bands:
        row["within"] = {_level(band): band.low <= actual <= band.high for band in forecast.bands}
    return row


def summary(rows: Sequence[Mapping[str, Any]]) -> Summary:
    """Returns bias, error and coverage over the rows of a score."""
    errors = [row["error"] for row in rows]
    coverage = {"range": sum(row["within_range"] for row in rows) / len(rows)}
    for level in rows[0].get("within", ()):
        coverage[level] = sum(row["within"][level] for row in rows) / len(rows)
    return Summary(len(rows), sum(errors) / len(rows), sum(map(abs, errors)) / len(rows), coverage)


def _level(band: Band) -> str:
    return f"{100 * band.level:.6g}%"
