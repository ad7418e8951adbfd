"""The page of registered forecasts, as experiments/public_forecast.py makes it: of a public ladder, with what came."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from engine import Engine

from marin_exec import ConfigError, StepFailed
from steps.report.forecasts import ForecastsReportConfig, RegisteredForecast, forecasts_report
from steps.report.gather_training import gather_forecast
from tests.directory_out import DirectoryOut

EXPERIMENT = Path(__file__).parents[3] / "experiments/public_forecast.py"
NAMES = ("joint", "matched")


class Made:
    """The experiment's outputs."""

    def __init__(self, folder: Path):
        self.engine = Engine(folder, EXPERIMENT)
        done = self.engine.run()
        assert done.returncode == 0, done.stderr

    @cache  # noqa: B019 - one object lives as long as the module
    def record(self, step: str) -> dict:
        return json.loads(self.engine.call("show", step, "--json").stdout)["record"]

    def folder(self, step: str) -> Path:
        return self.engine.store / self.record(step)["output_path"]

    def json(self, step: str, file: str) -> dict:
        return json.loads((self.folder(step) / file).read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return Made(tmp_path_factory.mktemp("forecasts"))


def registered(made: Made, name: str) -> RegisteredForecast:
    return RegisteredForecast(
        **{field: str(made.folder(f"{field}/{name}")) for field in ("forecast", "score", "holdout")}
    )


def test_page_shows_both_methods_their_intervals_and_what_came(made):
    result = made.record("report/forecasts")["result"]
    assert result["methods"] == ["joint_smooth_v1", "matched_progress_v1"] and result["target"] == "d6144"
    page = (made.folder("report/forecasts") / "index.html").read_text()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for phrase in (
        "d6144 is forecast to end at 2.019 nats a token, between 1.979 and 2.062, by joint_smooth_v1",
        "Registered for d6144 over 390,251 updates, from 5% of them on: context 4,096, mixture harrier_mix_2026_08_18",
        "mixture of September",
        "1.994 to 2.046",  # the 80 % interval
    ):
        assert phrase in text, phrase
    charts = re.findall(r'<svg .*?class="chart".*?</svg>', page, re.DOTALL)
    assert len(charts) == 4
    outside = {
        name: sum(not row["within_range"] for row in made.json(f"score/{name}", "score.json")["points"])
        for name in NAMES
    }
    assert outside == {"joint": 2, "matched": 8}
    assert [chart.count('class="hollow"') for chart in charts] == [2, 2, 8, 8]
    assert [chart.count('class="band"') for chart in charts] == [2, 1, 1, 1]
    twin = made.json("report/forecasts", "report.json")
    assert twin["forecasts"][0]["forecast"] == made.json("forecast/joint", "forecast.json")


def test_forecast_alone_has_a_page_before_anything_came(made, tmp_path):
    alone = RegisteredForecast(forecast=str(made.folder("forecast/joint")))
    assert forecasts_report(ForecastsReportConfig(forecasts=(alone,)), DirectoryOut(tmp_path)).page == "index.html"


def test_page_of_an_experiment_refuses_a_registered_forecast(made):
    with pytest.raises(
        StepFailed, match="this page takes forecast/matched_progress, and report/forecasts shows registered"
    ):
        gather_forecast(str(made.folder("forecast/joint")), "/score", "/noise")


def test_what_does_not_belong_together_is_refused(made, tmp_path):
    joint = registered(made, "joint")
    mixed = replace(joint, score=registered(made, "matched").score)
    with pytest.raises(
        StepFailed, match=r"score is of matched_progress_v1, the forecast beside it is by joint_smooth_v1"
    ):
        forecasts_report(ForecastsReportConfig(forecasts=(mixed,)), DirectoryOut(tmp_path))
    page = made.json("forecast/joint", "forecast.json")
    other = {**page, "target": {**page["target"], "name": "d4096"}}
    loose = {name: value for name, value in page.items() if name != "applicability"}
    for name, written in (("other", other), ("loose", loose)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "forecast.json").write_text(json.dumps(written))
    both = (joint, RegisteredForecast(forecast=str(tmp_path / "other")))
    with pytest.raises(StepFailed, match="forecasts of d4096, d6144; a page is about one run"):
        forecasts_report(ForecastsReportConfig(forecasts=both), DirectoryOut(tmp_path))
    unregistered = RegisteredForecast(forecast=str(tmp_path / "loose"))
    with pytest.raises(StepFailed, match="make the forecast with forecast/register"):
        forecasts_report(ForecastsReportConfig(forecasts=(unregistered,)), DirectoryOut(tmp_path))
    with pytest.raises(ConfigError, match="at least one RegisteredForecast"):
        ForecastsReportConfig(forecasts=())
