"""The published projection of Marin's 535B-A23B run, from the published losses of its ladder."""

import json

import pytest

from marin_exec import IdentityMismatch, StepFailed
from steps.forecast.curves import read_curves
from steps.forecast.matched_progress import MatchedProgress
from steps.forecast.points import read_points
from steps.forecast.public_figures import (
    PublicFiguresConfig,
    ladder_of,
    public_figures,
    read_figures,
    target_flops,
    target_of,
)
from steps.forecast.unfinished import LastLine
from tests.directory_out import DirectoryOut

FIGURES = read_figures(PublicFiguresConfig())
LADDER, FLOPS = ladder_of(FIGURES), target_flops(FIGURES)
MARKS = [round(0.05 * k, 6) for k in range(1, 21)]
PUBLISHED = MatchedProgress(asymptote=1.5, asymptote_range=(1.3, 1.7), unfinished=LastLine())
# Prediction and range over leaving out a rung at each 5 %, as published to four digits.
TABLE = """
2.3921 2.3855 2.4135 | 2.3261 2.3205 2.3379 | 2.2872 2.2816 2.2999 | 2.2571 2.2524 2.2664 | 2.2402 2.2295 2.2642
2.2234 2.2213 2.2285 | 2.2142 2.2099 2.2270 | 2.1853 2.1759 2.1993 | 2.1918 2.1850 2.2033 | 2.1724 2.1697 2.1740
2.1491 2.1425 2.1566 | 2.1352 2.1317 2.1407 | 2.1237 2.1215 2.1300 | 2.1105 2.1061 2.1166 | 2.0971 2.0946 2.1031
2.0852 2.0830 2.0899 | 2.0775 2.0769 2.0791 | 2.0643 2.0635 2.0650 | 2.0505 2.0494 2.0521 | 2.0388 2.0378 2.0415
"""
ROWS = [[float(value) for value in row.split()] for line in TABLE.strip().splitlines() for row in line.split("|")]


def test_all_twenty_marks_are_the_published_ones():
    made = PUBLISHED.forecast(LADDER, FLOPS, MARKS)
    assert len(ROWS) == len(made.marks) == 20
    full = FIGURES["published_forecast"]["rows"]
    for mark, fit, digits, row in zip(made.marks, made.details["fits"], ROWS, full, strict=True):
        values = [mark.loss, min(fit["leave_one_out"]), max(fit["leave_one_out"])]
        assert [round(value, 4) for value in values] == pytest.approx(digits, abs=1e-9)
        assert [mark.progress, *values] == pytest.approx(row, abs=1e-12)
    assert round(made.marks[-1].loss, 4) == 2.0388


def test_asymptotes_move_the_published_forecast_more_than_rungs_do():
    final = PUBLISHED.forecast(LADDER, FLOPS, MARKS).marks[-1]
    assert (final.low, final.high) == pytest.approx((2.0084, 2.0782), abs=5e-5)


def test_other_conventions_give_other_forecasts():
    with_head = MatchedProgress(
        asymptote=1.5, asymptote_range=(1.5, 1.5), compute="flops_with_lm_head", unfinished=LastLine()
    )
    assert with_head.forecast(LADDER, FLOPS, MARKS).marks[-1].loss == pytest.approx(2.015, abs=5e-4)
    uncorrected = MatchedProgress(asymptote=1.5, asymptote_range=(1.5, 1.5), unfinished=LastLine(correction=0.0))
    assert uncorrected.forecast(LADDER, FLOPS, MARKS).marks[-1].loss == pytest.approx(2.0341, abs=5e-5)


def test_rung_that_stopped_early_goes_on_by_the_declared_line():
    line = LastLine()
    assert line.line(LADDER[3], 0.8) == pytest.approx((-0.3508239, 2.7545320), abs=5e-8)
    (unfinished,) = PUBLISHED.forecast(LADDER, FLOPS, MARKS).details["unfinished"]
    assert unfinished["rung"] == "d2048" and unfinished["last_mark"] == 0.8
    assert unfinished["final_loss"] == pytest.approx(2.4087, abs=5e-5)
    assert list(unfinished["finished_rungs_above_their_line"].values()) == pytest.approx(
        [0.0036, 0.0029, 0.0032], abs=5e-5
    )


def test_rung_that_stopped_early_is_refused_without_a_rule():
    with pytest.raises(
        StepFailed, match=r"rungs \['d2048'\] have no loss at 100% .* declare MatchedProgress.unfinished"
    ):
        MatchedProgress(asymptote=1.5, asymptote_range=(1.5, 1.5)).forecast(LADDER, FLOPS, MARKS)


def test_line_through_one_evaluation_is_refused():
    with pytest.raises(StepFailed, match=r"run d2048: 1 evaluations between 80% and 80%"):
        LastLine(from_mark=0.8).completed(LADDER[3], MARKS)


def test_figures_come_back_from_the_files_of_the_step(tmp_path):
    result = public_figures(PublicFiguresConfig(), DirectoryOut(tmp_path))
    assert (result.num_rungs, result.num_points) == (4, 27)
    assert list(read_curves(str(tmp_path))) == LADDER
    assert read_points(str(tmp_path)) == target_of(FIGURES)


def test_compute_of_the_figures_is_three_forward_passes_of_each_token():
    forward = {"d768": 184393728, "d1024": 449003520, "d1536": 1209434112, "d2048": 2786623488}
    tokens = {"d768": 4194304, "d1024": 8388608, "d1536": 25165824, "d2048": 46137344}
    for curve in LADDER:
        head = 2 * int(curve.name[1:]) * 128256
        trained = 3 * curve.num_steps * tokens[curve.name]
        assert curve.flops == {
            "flops": trained * forward[curve.name],
            "flops_with_lm_head": trained * (forward[curve.name] + head),
        }
    assert FLOPS["flops"] == 3 * 390251 * 46137344 * 48336076800


def test_changed_figures_are_refused(tmp_path):
    changed = {**FIGURES, "evaluate_every": 0.1}
    (tmp_path / "other.json").write_text(json.dumps(changed))
    with pytest.raises(IdentityMismatch, match=r"its digest is .* the config says"):
        read_figures(PublicFiguresConfig(figures=str(tmp_path / "other.json")))
