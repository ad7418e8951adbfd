import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from steps.quality.evaluation import (
    auc,
    difference_within,
    estimate,
    resamples,
    scorecards,
    spearman_by,
    spearman_within,
)
from steps.quality.labels import spearman


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=50))
def test_auc_agrees_with_scikit_learn(pairs):
    predictions, positive = np.array([a for a, _ in pairs], dtype=float), np.array([b for _, b in pairs])
    expected = roc_auc_score(positive, predictions) if 0 < positive.sum() < len(positive) else 0.5
    assert auc(predictions, positive) == pytest.approx(expected)


def two_sources(size=200):
    """Source decides half of the label; the predictor knows the source and nothing else."""
    rng = np.random.default_rng(0)
    sources = np.array(["good", "poor"] * size)
    within = rng.normal(size=2 * size)
    scores = np.where(sources == "good", 2.0, 0.0) + within
    return sources, within, scores


def test_predictor_of_the_source_alone_wins_overall_and_has_nothing_within():
    sources, within, scores = two_sources()
    source_only = (sources == "good").astype(float)
    cards = scorecards(
        {"source": source_only, "text": within},
        scores,
        sources,
        sources,
        positive_score=1.5,
        draws=resamples(sources, 100, seed=0),
    )
    assert cards["source"].spearman.value > 0.5
    assert cards["source"].spearman_within_source.value == 0
    assert cards["source"].spearman_within_type.value == 0
    assert cards["text"].spearman_within_source.value == pytest.approx(1.0)
    assert cards["text"].spearman_within_type.value == pytest.approx(1.0)
    assert cards["source"].auc.value > 0.75


def test_source_with_few_labels_or_one_score_does_not_count_within():
    sources = np.array(["few"] * 9 + ["flat"] * 20 + ["counts"] * 20)
    scores = np.concatenate([np.arange(9), np.full(20, 3), np.arange(20)]).astype(float)
    predictions = np.concatenate([np.arange(9)[::-1], np.arange(20), np.arange(20)]).astype(float)
    assert spearman_within(predictions, scores, sources) == pytest.approx(1.0)
    assert spearman_within(predictions[:29], scores[:29], sources[:29]) == 0.0


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    hits = 0
    for trial in range(60):
        scores = rng.normal(size=80)
        predictions = scores + rng.normal(size=80)
        draws = resamples(np.array(["s"] * 80), 120, seed=trial)
        found = estimate(lambda rows, p=predictions, s=scores: spearman(p[rows], s[rows]), 80, draws)
        hits += found.low <= 0.690 <= found.high  # 6/pi asin(sqrt(1/2)/2) for a correlation of sqrt(1/2)
    assert 48 <= hits <= 60


def test_difference_of_a_predictor_with_itself_is_zero_and_with_noise_is_positive():
    sources, within, scores = two_sources()
    draws = resamples(sources, 100, seed=0)
    same = difference_within(within, within, scores, sources, draws)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    noise = np.random.default_rng(1).normal(size=len(scores))
    assert difference_within(within, noise, scores, sources, draws).low > 0.5


def test_resamples_keep_each_source_at_its_size_and_repeat_with_the_seed():
    sources = np.array(["a"] * 3 + ["b"] * 7)
    draws = resamples(sources, 5, seed=4)
    assert all((sources[draw] == "a").sum() == 3 for draw in draws)
    assert all((a == b).all() for a, b in zip(draws, resamples(sources, 5, seed=4), strict=True))


def test_spearman_by_leaves_out_small_groups():
    groups = np.array(["a"] * 5 + ["b"] * 2)
    found = spearman_by(np.arange(7.0), np.arange(7.0), groups, resamples(groups, 20, seed=0), 3)
    assert sorted(found) == ["a"] and found["a"].value == 1.0


def test_spearman_by_has_wider_intervals_for_fewer_documents():
    rng = np.random.default_rng(0)
    groups = np.array(["few"] * 20 + ["many"] * 400)
    scores = rng.normal(size=420)
    predictions = scores + rng.normal(size=420)
    found = spearman_by(predictions, scores, groups, resamples(groups, 200, seed=0), 10)
    width = {name: each.high - each.low for name, each in found.items()}
    assert width["few"] > 2 * width["many"] > 0
