import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from steps.quality.calibration import METHODS, buckets, calibrated, fit_curve, fit_curves, rising_medians

LABELLED = st.lists(st.tuples(st.floats(-3, 9), st.integers(1, 5)), min_size=1, max_size=80)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60)
@given(LABELLED)
def test_curve_rises_strictly_whatever_the_labels(method, pairs):
    predictions, scores = np.array(pairs).T
    assert (np.diff(fit_curve(predictions, scores, method)) > 0).all()


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60)
@given(LABELLED, st.lists(st.floats(-10, 20), min_size=2, max_size=20))
def test_calibrated_scores_are_in_range_and_keep_the_order(method, pairs, raw):
    predictions, scores = np.array(pairs).T
    values = np.sort(np.array(raw))
    found = calibrated(values, ["x"] * len(values), {"all": fit_curve(predictions, scores, method)})
    assert found.dtype == np.float32
    assert (np.diff(found) >= 0).all() and found.min() >= 0 and found.max() <= 1


def test_buckets_of_the_labelled_are_filled_as_the_labels_are():
    rng = np.random.default_rng(0)
    scores = rng.choice([1, 2, 3, 4, 5], size=2_000, p=[0.1, 0.15, 0.4, 0.25, 0.1])
    predictions = 3 + 0.2 * (scores - 3) + 0.3 * rng.normal(size=2_000)  # as shrunken as a ridge's are
    found = buckets(calibrated(predictions, ["x"] * 2_000, {"all": fit_curve(predictions, scores)}))
    shares = np.bincount(found, minlength=5) / 2_000
    np.testing.assert_allclose(shares, [(scores == score).mean() for score in (1, 2, 3, 4, 5)], atol=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_each_type_with_enough_labels_has_its_own_curve(method):
    rng = np.random.default_rng(1)
    types = ["code"] * 200 + ["legal"] * 200 + ["other"] * 5
    scores = rng.integers(1, 6, 405).astype(float)
    predictions = scores + 0.01 * rng.normal(size=405) + np.array([0.0] * 200 + [-2.0] * 205)
    curves = fit_curves(predictions, scores, types, 40, method)
    assert sorted(curves) == ["all", "code", "legal"]
    found = buckets(calibrated(predictions, types, curves))
    for start in (0, 200):  # a raw value that is good for a licence is poor for code, and both land in the same bucket
        chosen = slice(start, start + 200)
        assert (found[chosen] == scores[chosen] - 1).mean() > 0.97
    np.testing.assert_array_equal(found[400:], buckets(calibrated(predictions[400:], ["all"] * 5, curves)))


def test_edges_lie_midway_between_the_medians_of_neighbouring_scores():
    scores = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 9)
    medians = np.array([1.5, 1.9, 2.9, 3.1, 4.7])
    predictions = np.repeat(medians, 9) + np.tile(np.arange(-4, 5), 45 // 9) * 0.01
    curve = fit_curve(predictions, scores, "level_medians")
    assert curve[1:5] == pytest.approx([1.7, 2.4, 3.0, 3.9])
    edges = calibrated(np.array([1.7, 2.4, 3.0, 3.9]), ["x"] * 4, {"all": curve})
    np.testing.assert_allclose(edges, [0.2, 0.4, 0.6, 0.8], atol=1e-6)


@settings(max_examples=60)
@given(LABELLED)
def test_rising_medians_are_the_closest_rising_values_to_the_medians(pairs):
    predictions, scores = np.array(pairs).T
    found = rising_medians(predictions, scores)
    given_levels = np.unique(scores)
    medians = np.array([np.median(predictions[scores == level]) for level in given_levels])
    weights = np.array([(scores == level).sum() for level in given_levels])
    expected = IsotonicRegression().fit(given_levels, medians, sample_weight=weights).predict(given_levels)
    if found is None:
        assert len(given_levels) == 1 or expected[-1] <= expected[0]
        return
    np.testing.assert_allclose(found[given_levels.astype(int) - 1], expected, atol=1e-9)
    assert (np.diff(found) >= -1e-12).all()


def test_scores_nobody_gave_are_placed_by_the_spacing_of_the_others():
    predictions, scores = np.array([2.0, 2.0, 3.0, 3.0]), np.array([2.0, 2.0, 4.0, 4.0])
    np.testing.assert_allclose(rising_medians(predictions, scores), [1.5, 2.0, 2.5, 3.0, 3.5])


@pytest.mark.parametrize("method", METHODS)
def test_one_crowded_raw_value_does_not_crowd_the_middle_bucket_where_types_have_their_own_curves(method):
    """With one curve over types of different raw levels most documents land in the middle: 57 % were seen elsewhere."""
    rng = np.random.default_rng(3)
    types = ["math"] * 500 + ["prose"] * 500
    scores = np.tile(np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 100), 2)
    level = np.array([0.0] * 500 + [2.0] * 500)
    predictions = 2 + level + 0.15 * scores + 0.05 * rng.normal(size=1000)
    one = buckets(calibrated(predictions, ["all"] * 1000, {"all": fit_curve(predictions, scores, method)}))
    own = buckets(calibrated(predictions, types, fit_curves(predictions, scores, types, 40, method)))
    for kind in (slice(0, 500), slice(500, 1000)):
        shares = np.bincount(own[kind], minlength=5) / 500
        np.testing.assert_allclose(shares, 0.2, atol=0.05)
        assert np.abs(own[kind] - (scores[kind] - 1)).mean() < 0.25
        assert np.abs(one[kind] - (scores[kind] - 1)).mean() > 0.8
    worst = (np.array(types) == "math") & (scores == 5)
    assert own[worst].mean() > 3.7 and one[worst].mean() < 2.5  # good documents of a type of low raw values are good


def test_type_whose_medians_do_not_rise_has_no_curve_of_its_own():
    rng = np.random.default_rng(4)
    types = ["prose"] * 200 + ["noise"] * 200 + ["inverse"] * 200
    scores = np.tile(np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 40), 3)
    predictions = np.concatenate([scores[:200] + 0.1 * rng.normal(size=200), np.full(200, 3.0), 6 - scores[:200]])
    assert sorted(fit_curves(predictions, scores, types, 40, "level_medians")) == ["all", "prose"]
    assert sorted(fit_curves(predictions, scores, types, 40, "label_shares")) == ["all", "inverse", "noise", "prose"]


def test_constant_predictions_still_give_a_curve():
    curve = fit_curve(np.full(50, 2.5), np.full(50, 3.0))
    assert (np.diff(curve) > 0).all()


def test_bucket_edges_belong_to_the_upper_bucket():
    scores = np.array([0.0, 0.19, 0.2, 0.4, 0.6, 0.8, 1.0], dtype=np.float32)
    np.testing.assert_array_equal(buckets(scores), [0, 0, 1, 2, 3, 4, 4])
    assert buckets(scores).dtype == np.int8


def test_curve_of_no_labels_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        fit_curve(np.array([]), np.array([]))
