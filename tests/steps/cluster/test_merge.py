import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.cluster.merge import merge_clusters


def unit(points):
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def objective(points, weights, topics):
    return sum(np.linalg.norm(weights[topics == topic] @ points[topics == topic]) for topic in np.unique(topics))


def test_merge_finds_the_groups_that_are_there():
    rng = np.random.default_rng(0)
    axes = np.eye(10)[:5]
    points = unit(np.repeat(axes, 6, axis=0) + 0.15 * rng.normal(size=(30, 10)))
    topics = merge_clusters(points, rng.integers(1, 50, 30).astype(float), 5, min_fraction=0.01, seed=0)
    assert {tuple(topics[start : start + 6] == topics[start]) for start in range(0, 30, 6)} == {(True,) * 6}
    assert topics.dtype == np.int16


def test_merge_small_case_is_as_good_as_the_best_of_all_divisions():
    rng = np.random.default_rng(1)
    points, weights = unit(rng.normal(size=(8, 3))), rng.integers(1, 9, 8).astype(float)
    topics = merge_clusters(points, weights, 2, min_fraction=0.05, seed=0)
    divisions = (np.array(each) for each in itertools.product((0, 1), repeat=8))
    allowed = [
        each for each in divisions if min(weights[each == 0].sum(), weights[each == 1].sum()) >= 0.05 * weights.sum()
    ]
    best = max(objective(points, weights, each) for each in allowed)
    assert objective(points, weights, topics) == pytest.approx(best)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(12, 40), st.integers(1, 6))
def test_merge_every_topic_has_its_floor_and_they_are_numbered_by_weight(seed, num_clusters, num_topics):
    rng = np.random.default_rng(seed)
    points, weights = unit(rng.normal(size=(num_clusters, 5))), rng.integers(1, 4, num_clusters).astype(float)
    topics = merge_clusters(points, weights, num_topics, min_fraction=0.04, seed=seed)
    mass = np.bincount(topics, weights=weights, minlength=num_topics) / weights.sum()
    assert len(mass) == num_topics and mass.min() >= 0.04 - 1e-9
    assert (np.diff(mass) <= 1e-9).all()
    np.testing.assert_array_equal(topics, merge_clusters(points, weights, num_topics, min_fraction=0.04, seed=seed))


def test_merge_one_heavy_cluster_does_not_swallow_the_floor():
    points = unit(np.random.default_rng(2).normal(size=(6, 4)))
    weights = np.array([1_000.0, 1, 1, 1, 1, 1])
    with pytest.raises(ConfigError, match="only 1 topics of at least 5"):
        merge_clusters(points, weights, 2, min_fraction=0.05, seed=0)


@pytest.mark.parametrize(("num_topics", "min_fraction"), [(0, 0.01), (9, 0.01), (4, 0.3)])
def test_merge_impossible_number_is_refused(num_topics, min_fraction):
    with pytest.raises(ConfigError, match="are possible"):
        merge_clusters(unit(np.ones((8, 2))), np.ones(8), num_topics, min_fraction=min_fraction, seed=0)


def test_merge_more_restarts_never_give_a_worse_objective_and_the_first_is_as_alone():
    rng = np.random.default_rng(7)
    points, weights = unit(rng.normal(size=(60, 12))), rng.integers(1, 9, 60).astype(float)
    values = []
    for restarts in (1, 2, 4, 8):
        topics = merge_clusters(points, weights, 7, min_fraction=0.02, seed=3, restarts=restarts)
        values.append(objective(points, weights, topics))
    assert values == sorted(values) and values[-1] > values[0]


def test_merge_a_misc_of_unlike_clusters_is_divided_before_a_tight_group_is():
    rng = np.random.default_rng(0)
    tight = unit(np.eye(20)[:1] + 0.02 * rng.normal(size=(10, 20)))
    points = np.concatenate([tight, unit(rng.normal(size=(10, 20)))])
    topics = merge_clusters(points, np.ones(20), 4, min_fraction=0.05, seed=0, restarts=3)
    assert len(set(topics[:10].tolist())) == 1
