"""report/forecasts: registered forecasts of one run beside each other, with what came and how they did on a rung held out.

`index.html`, self-contained, and `report.json`, the same values: intervals along the run, losses by regime, errors, where the
uncertainty is from, what each forecast applies to and was made from.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Any

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind, measured
from steps.files import read_bytes
from steps.report.experiment import content_digest


@dataclass(frozen=True, kw_only=True)
class RegisteredForecast:
    """One forecast, and what is known of how good it is."""

    forecast: InputPath
    """Output of forecast/register."""
    score: InputPath | None = None
    """Output of forecast/score or forecast/score_points; None while there is nothing to compare it with."""
    holdout: InputPath | None = None
    """Output of forecast/holdout by the same method."""


@dataclass(frozen=True, kw_only=True)
class ForecastsReportConfig:
    title: str = "Forecast"
    forecasts: tuple[RegisteredForecast, ...]
    """Of one run, the one that counts first."""

    def __post_init__(self) -> None:
        if not self.forecasts:
            raise ConfigError("ForecastsReportConfig.forecasts is empty; at least one RegisteredForecast is needed")


@dataclass(frozen=True)
class ForecastsReportResult:
    page: str
    """Below the output."""
    target: str
    methods: tuple[str, ...]
    page_bytes: Annotated[int, measured]


@kind("report/forecasts", version=1, content_digest=content_digest, reads_lineage=True)
def forecasts_report(config: ForecastsReportConfig, out: Out) -> ForecastsReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: a forecast was not registered, two are of different runs, or a score or holdout is of another method.
    """
    from steps.report.forecasts_sections import sections
    from steps.report.stage_page import write_stage_page

    found = [_gathered(each) for each in config.forecasts]
    targets = sorted({each["forecast"]["target"]["name"] for each in found})
    if len(targets) > 1:
        raise StepFailed(f"report: forecasts of {', '.join(targets)}; a page is about one run")
    values = {"format": "report/forecasts/1", "forecasts": found}
    first = found[0]["forecast"]
    final = first["predictions"][-1]
    lead = (
        f"{targets[0]} is forecast to end at {final['loss']:.3f} nats a token, between {final['low']:.3f} and {final['high']:.3f}, "
        f"by {first['method']}."
    )
    inputs = [
        path for each in config.forecasts for path in (each.forecast, each.score, each.holdout) if path is not None
    ]
    page_bytes = write_stage_page(out, config.title, lead, values, sections(values), inputs)
    methods = tuple(each["forecast"]["method"] for each in found)
    return ForecastsReportResult("index.html", targets[0], methods, page_bytes=page_bytes)


def _gathered(each: RegisteredForecast) -> dict[str, Any]:
    forecast = _read(each.forecast, "forecast.json")
    if "applicability" not in forecast:
        raise StepFailed(
            f"report: {each.forecast} says not what it applies to; make the forecast with forecast/register"
        )
    others = {"score": _read(each.score, "score.json"), "holdout": _read(each.holdout, "holdout.json")}
    for name, page in others.items():
        if page is not None and page["method"] != forecast["method"]:
            raise StepFailed(
                f"report: {name} is of {page['method']}, the forecast beside it is by {forecast['method']}"
            )
    return {"forecast": forecast, **others}


def _read(path: str | None, name: str) -> Any:
    return None if path is None else json.loads(read_bytes(f"{path}/{name}"))
