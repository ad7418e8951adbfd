"""The public evaluations of the hero run, scored; and what is outside a registered forecast, refused."""

import json
from dataclasses import asdict, replace

import pytest

from marin_exec import ConfigError, StepFailed
from steps.forecast.curves import Conditions
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.method import Band, MarkForecast
from steps.forecast.points import MeasuredRun, Point, write_points
from steps.forecast.public_figures import (
    PublicFiguresConfig,
    ladder_of,
    public_figures,
    read_figures,
    target_flops,
    target_of,
)
from steps.forecast.register import RegisterConfig, Target, digest, register
from steps.forecast.score_points import Regime, ScorePointsConfig, score_points
from steps.forecast.scoring import at_progress, scored, summary
from steps.forecast.unfinished import LastLine
from tests.directory_out import DirectoryOut

FIGURES = read_figures(PublicFiguresConfig())
HERO = target_of(FIGURES)
TARGET = Target(name="d6144", num_steps=390251, **target_flops(FIGURES))
PUBLISHED = MatchedProgress(asymptote=1.5, asymptote_range=(1.3, 1.7), unfinished=LastLine())
SEPTEMBER = Regime(
    name="mixture of September",
    from_step=108_000,
    conditions=replace(HERO.points[0].conditions, mixture="best_mixture_996f489106c7b922"),
    why="new mixture weights from step 108,000 on",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Figures, and a forecast by each method."""
    folder = tmp_path_factory.mktemp("registered")
    public_figures(PublicFiguresConfig(), DirectoryOut(folder / "figures"))
    for name, method in (("published", PUBLISHED), ("joint", JointSmooth())):
        config = RegisterConfig(curves=str(folder / "figures"), method=method, target=TARGET)
        register(config, DirectoryOut(folder / name))
    return folder


def score(folder, tmp_path, forecast="published", points=None, **changed):
    config = ScorePointsConfig(forecast=str(folder / forecast), points=str(points or folder / "figures"), **changed)
    return score_points(config, DirectoryOut(tmp_path)), json.loads((tmp_path / "score.json").read_text())


def test_residuals_of_the_published_forecast_are_the_published_ones(folder, tmp_path):
    result, page = score(folder, tmp_path, first_step=20_000, regimes=(SEPTEMBER,))
    residuals = {row["step"]: -row["error"] for row in page["points"]}
    known = {29_999: -0.0710, 38_999: -0.0556, 56_999: -0.0378, 68_999: -0.0243, 80_999: -0.0229, 98_999: -0.0177, 107_999: -0.0161,
             125_999: -0.0141}  # fmt: skip
    assert {step: round(residuals[step], 4) for step in known} == known
    assert {row["step"]: row["regime"] for row in page["points"]}[110_999] == "mixture of September"
    assert (result.registered.num_points, result.regimes["mixture of September"].num_points) == (21, 3)
    assert page["declared_regimes"] == [json.loads(json.dumps(asdict(SEPTEMBER)))]


def test_bias_and_coverage_of_both_methods_on_the_public_points(folder, tmp_path):
    within = {"first_step": 20_000, "last_step": 107_999}
    published, _ = score(folder, tmp_path, **within)
    joint, _ = score(folder, tmp_path, forecast="joint", **within)
    assert published.registered.num_points == joint.registered.num_points == 21
    assert published.registered.bias == pytest.approx(0.0300, abs=5e-5)
    assert published.registered.coverage == {"range": pytest.approx(13 / 21)}
    assert joint.registered.bias == pytest.approx(0.0156, abs=5e-5)
    assert joint.registered.coverage["80%"] == pytest.approx(18 / 21)
    assert joint.registered.coverage["95%"] == pytest.approx(19 / 21)


def test_other_mixture_is_refused_unless_its_regime_is_declared(folder, tmp_path):
    with pytest.raises(
        StepFailed, match=r"step 110,999 of d6144 .*mixture is 'best_mixture_\w+', registered is 'harrier"
    ):
        score(folder, tmp_path, first_step=20_000)
    with pytest.raises(StepFailed, match=r'step 107,999 .* regime "early": mixture is'):
        score(folder, tmp_path, first_step=20_000, regimes=(replace(SEPTEMBER, name="early", from_step=107_000),))


def test_points_before_the_first_mark_are_refused_and_not_extrapolated(folder, tmp_path):
    with pytest.raises(StepFailed, match=r"step 2,999 of d6144 .*progress is 0.77%, the first mark is 5%"):
        score(folder, tmp_path)


@pytest.mark.parametrize(
    ("run", "conditions", "message"),
    [
        ({"name": "d4096"}, {}, "run is 'd4096', registered is 'd6144'"),
        ({"num_steps": 390_139}, {}, "num_steps is 390139, registered is 390251"),
        ({}, {"context_length": 16_384}, "context_length is 16384, registered is 4096"),
        ({}, {"metric": "eval/paloma/macro_loss"}, "metric is 'eval/paloma/macro_loss', registered is 'eval_dropless"),
        ({"name": "x"}, {"context_length": 1, "mixture": "m"}, "run is 'x'.*; context_length is 1.*; mixture is 'm'"),
    ],
)
def test_every_field_that_differs_is_named(folder, tmp_path, run, conditions, message):
    point = Point(100_000, 2.22, replace(HERO.points[0].conditions, **conditions))
    write_points(str(tmp_path / "points.json"), replace(MeasuredRun("d6144", 390_251, (point,)), **run))
    with pytest.raises(StepFailed, match=message):
        score(folder, tmp_path, points=tmp_path)


def test_forecast_that_was_not_registered_and_empty_windows_are_refused(folder, tmp_path):
    with pytest.raises(StepFailed, match="none of the 27 points of d6144 lies in steps 400,000 to 390,251"):
        score(folder, tmp_path, first_step=400_000)
    (tmp_path / "forecast.json").write_text(json.dumps({"predictions": []}))
    with pytest.raises(StepFailed, match="make the forecast with forecast/register"):
        score(tmp_path, tmp_path, forecast=".", points=folder / "figures")


def test_regimes_out_of_order_are_refused():
    with pytest.raises(ConfigError, match="rising steps are needed"):
        ScorePointsConfig(forecast="/f", points="/p", regimes=(SEPTEMBER, replace(SEPTEMBER, name="b", from_step=9)))


def test_registered_record_holds_method_parameters_conditions_and_digests(folder):
    page = json.loads((folder / "joint/forecast.json").read_text())
    assert page["method"] == "joint_smooth_v1" and page["parameters"]["asymptote_deviation"] == 0.2
    assert page["applicability"]["conditions"] == FIGURES["conditions"]
    assert (page["applicability"]["run"], page["applicability"]["num_steps"]) == ("d6144", 390_251)
    curves = ladder_of(FIGURES)
    assert [rung["sha256"] for rung in page["rungs"]] == [digest(curve) for curve in curves]
    changed = replace(curves[0], losses={**curves[0].losses, 1.0: curves[0].losses[1.0] + 1e-9})
    assert digest(changed) != digest(curves[0])


def test_target_without_the_compute_that_a_method_asks_for_is_refused():
    with pytest.raises(ConfigError, match="has no flops_with_lm_head, which method joint_smooth_v1 asks for"):
        RegisterConfig(curves="/c", method=JointSmooth(), target=Target(name="t", num_steps=1, flops=10))


def test_target_measured_otherwise_than_its_rungs_is_refused(folder, tmp_path):
    other = Conditions(context_length=4096, mixture="m", metric="eval_dropless/paloma/micro_loss")
    config = RegisterConfig(curves=str(folder / "figures"), method=PUBLISHED, target=replace(TARGET, conditions=other))
    with pytest.raises(StepFailed, match="one loss does not forecast another"):
        register(config, DirectoryOut(tmp_path))


def test_between_marks_the_forecast_is_interpolated_and_scores_are_counted():
    marks = [
        MarkForecast(0.5, 3.0, 2.8, 3.2, (Band(0.8, 2.9, 3.1),)),
        MarkForecast(1.0, 2.0, 1.9, 2.4, (Band(0.8, 1.95, 2.2),)),
    ]
    assert at_progress(marks, 0.5) is marks[0] and at_progress(marks, 1.0) is marks[1]
    middle = at_progress(marks, 0.75)
    assert (middle.loss, middle.low, middle.high) == pytest.approx((2.5, 2.35, 2.8))
    assert middle.bands[0].low == pytest.approx(2.425)
    rows = [scored(middle, 2.4), scored(middle, 2.78), scored(middle, 2.9)]
    counted = summary(rows)
    assert counted.coverage == {"range": pytest.approx(2 / 3), "80%": 0.0}
    assert counted.bias == pytest.approx(-0.58 / 3) and counted.mean_absolute_error == pytest.approx(0.78 / 3)
    for outside in (0.49, 1.01):
        with pytest.raises(StepFailed, match="nothing is extrapolated"):
            at_progress(marks, outside)
