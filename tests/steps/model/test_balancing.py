"""Balancing thresholds from a histogram against sorted margins, and what their bits depend on."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.model.balancing import NUM_BINS, histogram_thresholds
from tests.steps.model.device_process import run_on_devices

T, E, K = 400, 5, 2
thresholds = jax.jit(histogram_thresholds, static_argnames="choices")


def case(seed: int, spread: float, share_valid: float) -> tuple[np.ndarray, np.ndarray]:
    """Margins whose experts differ in level and scale, and which tokens count: the first does."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(T, E)) * (1 + spread * np.arange(E)) + spread * random.normal(size=E)
    valid = random.random(T) < share_valid
    valid[0] = True
    return values.astype(np.float32), valid


CASES = {
    "seed": st.integers(0, 10_000),
    "spread": st.sampled_from([0.0, 0.5, 30.0]),
    "share_valid": st.sampled_from([0.1, 0.8, 1.0]),
}


@settings(max_examples=40)
@given(**CASES)
def test_threshold_is_the_margin_that_the_even_share_reaches(seed, spread, share_valid):
    values, valid = case(seed, spread, share_valid)
    found, (low, high) = thresholds(values, valid, choices=K)
    counted = values[valid]
    assert (low, high) == (counted.min(), counted.max())
    share, bin_width = len(counted) * K / E, (high - low) / NUM_BINS
    for expert in range(E):
        descending = np.sort(counted[:, expert])[::-1]
        # The margin of rank `share` lies in the bin that the threshold lies in, and that one has its neighbours within a bin.
        first, last = descending[int(np.ceil(share)) - 1], descending[min(int(np.floor(share)), len(counted) - 1)]
        assert min(first, last) - 1.01 * bin_width <= found[expert] <= max(first, last) + 1.01 * bin_width
        reached = (counted[:, expert] > found[expert] + 1.01 * bin_width).sum()
        assert reached <= share <= (counted[:, expert] > found[expert] - 1.01 * bin_width).sum() + 1e-3


@settings(max_examples=20)
@given(**CASES)
def test_threshold_has_the_same_bits_in_any_order_and_for_any_values_of_what_does_not_count(seed, spread, share_valid):
    values, valid = case(seed, spread, share_valid)
    order = np.random.default_rng(seed + 1).permutation(T)
    other = np.where(valid[:, None], values, 1e9).astype(np.float32)
    for found, expected in zip(
        thresholds(other[order], valid[order], choices=K), thresholds(values, valid, choices=K), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_threshold_of_equal_margins_is_that_margin(value):
    found, ends = thresholds(np.full((T, E), value, np.float32), np.ones(T, bool), choices=K)
    np.testing.assert_allclose(found, value, atol=1e-6)
    np.testing.assert_array_equal(ends, [value, value])


def test_thresholds_without_a_valid_token_are_zero():
    found, ends = thresholds(case(0, 1.0, 1.0)[0], np.zeros(T, bool), choices=K)
    np.testing.assert_array_equal(found, np.zeros(E))
    np.testing.assert_array_equal(ends, np.zeros(2))


def test_selecting_by_the_negative_threshold_is_even():
    values, valid = case(5, 3.0, 1.0)
    bias = np.zeros(E, np.float32)
    for _ in range(8):
        found, _ = thresholds(values - np.sort(values + bias, axis=1)[:, -K - 1, None], valid, choices=K)
        bias = np.asarray(found).mean() - np.asarray(found)
    counts = np.bincount(np.argsort(-(values + bias), axis=1)[:, :K].ravel(), minlength=E)
    unbiased = np.bincount(np.argsort(-values, axis=1)[:, :K].ravel(), minlength=E)
    assert counts.max() < 1.05 * T * K / E < 1.5 * T * K / E < unbiased.max(), (counts, unbiased)


OVER_DEVICES = """
    import jax, numpy as np
    from steps.model.mesh import array_of_rows, device_mesh
    from tests.steps.model.test_balancing import K, T, case, thresholds
    with jax.set_mesh(device_mesh()):
        assert len(jax.devices()) == 4
        found, ends = thresholds(*(array_of_rows(each, T) for each in case(3, 0.5, 0.8)), choices=K)
        np.savez(OUT, found=found, ends=ends)
"""


@pytest.mark.slow
def test_threshold_has_the_same_bits_over_four_devices(tmp_path):
    run_on_devices(OVER_DEVICES, 4, OUT=str(tmp_path / "found.npz"))
    saved, expected = np.load(tmp_path / "found.npz"), thresholds(*case(3, 0.5, 0.8), choices=K)
    np.testing.assert_array_equal(saved["found"], expected[0])
    np.testing.assert_array_equal(saved["ends"], expected[1])
