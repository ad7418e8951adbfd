"""The page of registered forecasts: of the public ladder by both methods, with what came."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from marin_exec import ConfigError, StepFailed
from steps.forecast.holdout import HoldoutConfig, holdout
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.public_figures import PublicFiguresConfig, public_figures, read_figures, target_flops, target_of
from steps.forecast.register import RegisterConfig, Target, register
from steps.forecast.score_points import Regime, ScorePointsConfig, score_points
from steps.forecast.unfinished import LastLine
from steps.report.forecasts import ForecastsReportConfig, RegisteredForecast, forecasts_report
from tests.directory_out import DirectoryOut

FIGURES = read_figures(PublicFiguresConfig())
METHODS = {
    "joint": JointSmooth(computes=("flops",)),
    "published": MatchedProgress(asymptote=1.5, asymptote_range=(1.3, 1.7), unfinished=LastLine()),
}
SEPTEMBER = Regime(
    name="mixture of September",
    from_step=108_000,
    conditions=replace(target_of(FIGURES).points[0].conditions, mixture="best_mixture_996f489106c7b922"),
    why="new mixture weights",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("forecasts")
    figures = str(folder / "figures")
    public_figures(PublicFiguresConfig(), DirectoryOut(folder / "figures"))
    target = Target(name="d6144", num_steps=390_251, **target_flops(FIGURES))
    for name, method in METHODS.items():
        made = str(folder / name)
        register(RegisterConfig(curves=figures, method=method, target=target), DirectoryOut(folder / name))
        points = ScorePointsConfig(forecast=made, points=figures, first_step=20_000, regimes=(SEPTEMBER,))
        score_points(points, DirectoryOut(folder / f"{name}-score"))
        holdout(HoldoutConfig(curves=figures, method=method), DirectoryOut(folder / f"{name}-holdout"))
    return folder


def registered(folder: Path, name: str) -> RegisteredForecast:
    path = str(folder / name)
    return RegisteredForecast(forecast=path, score=f"{path}-score", holdout=f"{path}-holdout")


def test_page_shows_both_methods_their_intervals_and_what_came(folder, tmp_path):
    config = ForecastsReportConfig(forecasts=(registered(folder, "joint"), registered(folder, "published")))
    result = forecasts_report(config, DirectoryOut(tmp_path))
    assert result.methods == ("joint_smooth_v1", "matched_progress_v1") and result.target == "d6144"
    page = (tmp_path / "index.html").read_text()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    final = json.loads((folder / "joint/forecast.json").read_text())["predictions"][-1]
    inner = final["bands"][0]
    for phrase in (
        f"to end at {final['loss']:.3f} nats a token, between {final['low']:.3f} and {final['high']:.3f}, by joint_smooth_v1",
        "Registered for d6144 over 390,251 updates, from 5% of them on: context 4,096, mixture harrier_mix_2026_08_18",
        "mixture of September",
        f"{inner['low']:.3f} to {inner['high']:.3f}",
    ):
        assert phrase in text, phrase
    charts = re.findall(r'<svg .*?class="chart".*?</svg>', page, re.DOTALL)
    assert len(charts) == 4
    outside = {
        name: sum(
            not row["within_range"] for row in json.loads((folder / f"{name}-score/score.json").read_text())["points"]
        )
        for name in METHODS
    }
    assert 0 < outside["joint"] < outside["published"] == 8
    assert [chart.count('class="hollow"') for chart in charts] == [*[outside["joint"]] * 2, 8, 8]
    assert [chart.count('class="band"') for chart in charts] == [2, 1, 1, 1]
    twin = json.loads((tmp_path / "report.json").read_text())
    assert twin["forecasts"][0]["forecast"] == json.loads((folder / "joint/forecast.json").read_text())


def test_forecast_alone_has_a_page_before_anything_came(folder, tmp_path):
    alone = RegisteredForecast(forecast=str(folder / "joint"))
    assert forecasts_report(ForecastsReportConfig(forecasts=(alone,)), DirectoryOut(tmp_path)).page == "index.html"


def test_what_does_not_belong_together_is_refused(folder, tmp_path):
    mixed = replace(registered(folder, "joint"), score=str(folder / "published-score"))
    with pytest.raises(
        StepFailed, match=r"score is of matched_progress_v1, the forecast beside it is by joint_smooth_v1"
    ):
        forecasts_report(ForecastsReportConfig(forecasts=(mixed,)), DirectoryOut(tmp_path))
    page = json.loads((folder / "joint/forecast.json").read_text())
    for name, changed in (("other", {"target": {**page["target"], "name": "d4096"}}), ("loose", {})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "forecast.json").write_text(json.dumps({**page, **changed}))
    others = (registered(folder, "joint"), RegisteredForecast(forecast=str(tmp_path / "other")))
    with pytest.raises(StepFailed, match="forecasts of d4096, d6144; a page is about one run"):
        forecasts_report(ForecastsReportConfig(forecasts=others), DirectoryOut(tmp_path))
    del page["applicability"]
    (tmp_path / "loose/forecast.json").write_text(json.dumps(page))
    loose = RegisteredForecast(forecast=str(tmp_path / "loose"))
    with pytest.raises(StepFailed, match="make the forecast with forecast/register"):
        forecasts_report(ForecastsReportConfig(forecasts=(loose,)), DirectoryOut(tmp_path))
    with pytest.raises(ConfigError, match="at least one RegisteredForecast"):
        ForecastsReportConfig(forecasts=())
