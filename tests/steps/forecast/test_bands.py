"""Quantiles of mixtures of shifted log-normals, and sequences made to fall."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from steps.forecast.bands import Mixture, falling


def test_quantiles_of_one_component_are_the_log_normals():
    mixture = Mixture(np.array([1.0]), np.array([1.5]), np.array([[-0.5, 0.2]]), np.array([[0.1, 0.3]]))
    levels = [0.025, 0.5, 0.9]
    expected = [
        [1.5 + math.exp(mean + deviation * norm.ppf(level)) for level in levels]
        for mean, deviation in ((-0.5, 0.1), (0.2, 0.3))
    ]
    assert mixture.quantiles(levels) == pytest.approx(np.array(expected), abs=1e-9)


def test_quantiles_and_moments_of_a_mixture_are_those_of_its_draws():
    weight, asymptote = np.array([0.3, 0.7]), np.array([1.2, 1.7])
    mean, deviation = np.array([[-0.2], [-1.0]]), np.array([[0.05], [0.2]])
    mixture = Mixture(weight, asymptote, mean, deviation)
    rng = np.random.default_rng(0)
    which = rng.choice(2, size=400_000, p=weight)
    draws = asymptote[which] + np.exp(mean[which, 0] + deviation[which, 0] * rng.standard_normal(len(which)))
    levels = [0.1, 0.25, 0.5, 0.9]
    assert mixture.quantiles(levels)[0] == pytest.approx(np.quantile(draws, levels), abs=3e-3)
    means, variances = mixture.moments()
    assert weight @ means[:, 0] == pytest.approx(draws.mean(), abs=2e-3)
    assert variances[1, 0] == pytest.approx(draws[which == 1].var(), rel=0.02)


SEQUENCES = st.integers(1, 12).flatmap(lambda n: st.tuples(*(st.lists(st.floats(-5, 5), min_size=n, max_size=n),) * 2))


@given(SEQUENCES)
def test_falling_falls_keeps_the_mean_and_the_order_of_sequences(pair):
    low, high = np.minimum(*map(np.array, pair)), np.maximum(*map(np.array, pair))
    below, above = falling(low), falling(high)
    assert np.all(np.diff(below) <= 1e-12) and np.all(np.diff(above) <= 1e-12)
    assert np.all(below <= above + 1e-9)
    assert below.mean() == pytest.approx(low.mean(), abs=1e-9)
    assert falling(below) == pytest.approx(below)
