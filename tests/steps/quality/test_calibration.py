import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.quality.calibration import buckets, calibrated, fit_curve, fit_curves

LABELLED = st.lists(st.tuples(st.floats(-3, 9), st.integers(1, 5)), min_size=1, max_size=80)


@given(LABELLED)
def test_curve_rises_strictly_whatever_the_labels(pairs):
    predictions, scores = np.array(pairs).T
    assert (np.diff(fit_curve(predictions, scores)) > 0).all()


@given(LABELLED, st.lists(st.floats(-10, 20), min_size=2, max_size=20))
def test_calibrated_scores_are_in_range_and_keep_the_order(pairs, raw):
    predictions, scores = np.array(pairs).T
    values = np.sort(np.array(raw))
    found = calibrated(values, ["x"] * len(values), {"all": fit_curve(predictions, scores)})
    assert found.dtype == np.float32
    assert (np.diff(found) >= 0).all() and found.min() >= 0 and found.max() <= 1


def test_buckets_of_the_labelled_are_filled_as_the_labels_are():
    rng = np.random.default_rng(0)
    scores = rng.choice([1, 2, 3, 4, 5], size=2_000, p=[0.1, 0.15, 0.4, 0.25, 0.1])
    predictions = 3 + 0.2 * (scores - 3) + 0.3 * rng.normal(size=2_000)  # as shrunken as a ridge's are
    found = buckets(calibrated(predictions, ["x"] * 2_000, {"all": fit_curve(predictions, scores)}))
    shares = np.bincount(found, minlength=5) / 2_000
    np.testing.assert_allclose(shares, [(scores == score).mean() for score in (1, 2, 3, 4, 5)], atol=0.01)


def test_each_type_with_enough_labels_has_its_own_curve():
    rng = np.random.default_rng(1)
    types = ["code"] * 200 + ["legal"] * 200 + ["other"] * 5
    scores = rng.integers(1, 6, 405).astype(float)
    predictions = scores + 0.01 * rng.normal(size=405) + np.array([0.0] * 200 + [-2.0] * 205)
    curves = fit_curves(predictions, scores, types, min_labels=40)
    assert sorted(curves) == ["all", "code", "legal"]
    found = buckets(calibrated(predictions, types, curves))
    for start in (0, 200):  # a raw value that is good for a licence is poor for code, and both land in the same bucket
        chosen = slice(start, start + 200)
        assert (found[chosen] == scores[chosen] - 1).mean() > 0.97
    np.testing.assert_array_equal(found[400:], buckets(calibrated(predictions[400:], ["all"] * 5, curves)))


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
