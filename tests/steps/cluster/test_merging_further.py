"""Mergers against the definition, worked out by trying every pair from the start each time."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from steps.cluster.merging_further import merging_further


def by_trying(centroids, weights, topics, most):
    share = weights / weights.sum()
    groups = {topic: np.flatnonzero(topics == topic) for topic in range(topics.max() + 1)}

    def tight(group):
        return np.linalg.norm((share[group, None] * centroids[group]).sum(axis=0))

    whole, found = sum(map(tight, groups.values())), []
    while len(groups) > 1 and len(found) < most:
        lost = {
            pair: tight(groups[pair[0]])
            + tight(groups[pair[1]])
            - tight(np.concatenate([groups[each] for each in pair]))
            for pair in itertools.combinations(sorted(groups), 2)
        }
        first, second = min(lost, key=lambda pair: (round(lost[pair], 9), pair))
        groups[first] = np.concatenate([groups[first], groups.pop(second)])
        found.append((first, second, lost[first, second] / whole, share[groups[first]].sum()))
    return found


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(0, 9), st.integers(0, 12))
def test_pairs_are_those_that_lose_least(seed, num_topics, more, most):
    random = np.random.default_rng(seed)
    topics = random.permutation(np.concatenate([np.arange(num_topics), random.integers(0, num_topics, more)]))
    centroids = random.normal(size=(len(topics), 4))
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    weights = random.integers(1, 50, len(topics)).astype(float)
    found = merging_further(centroids, weights, topics, most)
    wanted = by_trying(centroids, weights, topics, most)
    assert [(each.first, each.second) for each in found] == [each[:2] for each in wanted]
    np.testing.assert_allclose([[each.lost, each.share] for each in found], [each[2:] for each in wanted], atol=2e-5)
    assert len(found) == min(most, num_topics - 1)


def test_cosine_is_between_the_directions_and_none_is_merged_of_one_topic():
    centroids = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])
    (first, second) = merging_further(centroids, np.ones(3), np.arange(3), 5)
    assert (first.first, first.second, first.cosine) == (0, 1, 0.6) and (second.first, second.second) == (0, 2)
    assert merging_further(centroids[:1], np.ones(1), np.zeros(1, dtype=int), 5) == []
