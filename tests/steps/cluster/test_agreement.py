"""Agreement of divisions, against scikit-learn and against what is true of any division."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from steps.cluster.agreement import (
    adjusted_rand,
    best_matches,
    contingency,
    mean_over_pairs,
    normalised_mutual_information,
    purity,
)

DIVISIONS = st.integers(2, 40).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(0, 5), min_size=size, max_size=size) for _ in range(2)])
)


@settings(max_examples=60)
@given(DIVISIONS)
def test_agreement_is_that_of_scikit_learn(divisions):
    one, other = map(np.array, divisions)
    table = contingency(one, other)
    assert adjusted_rand(table) == pytest.approx(adjusted_rand_score(one, other), abs=1e-9)
    expected = normalized_mutual_info_score(one, other)
    if (
        len(set(one.tolist())) > 1 or len(set(other.tolist())) > 1
    ):  # scikit-learn calls two single groups 1.0 too, by itself
        assert normalised_mutual_information(table) == pytest.approx(expected, abs=1e-9)


@given(DIVISIONS)
def test_equal_divisions_agree_wholly_whatever_their_numbers(divisions):
    one, _ = map(np.array, divisions)
    renamed = np.array([7, 3, 0, 9, 1, 4])[one]
    table = contingency(one, renamed)
    assert adjusted_rand(table) == pytest.approx(1) and normalised_mutual_information(table) == pytest.approx(1)
    assert purity(table) == 1 and best_matches(table)[np.unique(one)] == pytest.approx(1)


def test_best_match_of_a_group_that_was_halved_is_a_half():
    table = contingency(np.array([0] * 10 + [1] * 10), np.array([0] * 5 + [2] * 5 + [1] * 10))
    np.testing.assert_allclose(best_matches(table), [0.5, 1.0])


def test_mean_over_pairs_of_three():
    one, other = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    rand, information = mean_over_pairs([one, one, other])
    assert rand == pytest.approx((1 + 2 * adjusted_rand_score(one, other)) / 3)
    assert information == pytest.approx(1 / 3)
