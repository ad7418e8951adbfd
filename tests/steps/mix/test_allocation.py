from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.mix.allocation import cap_exposures, exposures, largest_remainder, round_to_block


def reference_remainder(parts: list[int], total: int) -> list[int]:
    """Largest remainder in exact fractions."""
    shares = [Fraction(part * total, sum(parts)) for part in parts]
    counts = [int(share) for share in shares]
    order = sorted(range(len(parts)), key=lambda i: (-(shares[i] - counts[i]), i))
    for i in order[: total - sum(counts)]:
        counts[i] += 1
    return counts


@given(parts=st.lists(st.integers(1, 40), min_size=1, max_size=20), total=st.integers(1, 2000))
@settings(max_examples=200)
def test_largest_remainder_equals_exact_fractions_up_to_ties(parts, total):
    weights = np.array(parts, dtype=float) / sum(parts)
    counts = largest_remainder(weights, total, np.ones(len(parts), dtype=bool))
    expected = reference_remainder(parts, total)
    assert counts.sum() == total and np.all(np.abs(counts - weights * total) < 1 + 1e-6)
    # Remainders that are equal as fractions may differ in the last bit as floats; the counts agree as sets of fates then.
    assert sorted(counts - np.floor(weights * total + 1e-9)) == sorted(
        np.array(expected) - np.floor(weights * total + 1e-9)
    )


def test_largest_remainder_zero_weight_never_gets_one():
    assert largest_remainder(np.array([0.5, 0.0, 0.5]), 3, np.array([True, False, True])).tolist() == [2, 0, 1]


def shares(columns: list[list[float]]) -> np.ndarray:
    weights = np.array(columns, dtype=float).T
    return weights / weights.sum(axis=0)


def test_cap_exposures_none_above_changes_nothing():
    weights = shares([[1, 2, 3], [3, 2, 1]])
    available = np.array([1000, 1000, 1000])
    capped, held = cap_exposures(["a", "b", "c"], weights, available, np.array([0.8, 0.2]), 1000, 2.0, "error")
    assert np.array_equal(capped, weights) and not held.any()


def test_cap_exposures_above_is_an_error_that_names_the_component():
    weights, available = shares([[1, 1]]), np.array([100, 10_000])
    with pytest.raises(ConfigError, match=r"epochs above max_epochs 4 at 1000 tokens: small 5\.00"):
        cap_exposures(["small", "large"], weights, available, np.array([1.0]), 1000, 4.0, "error")


def test_cap_exposures_water_filling_by_hand():
    # 1,000 tokens, 0.5/0.3/0.2 of stocks 100/200/1000, cap 2: a may give 200, then b's 0.48 is 480 > 400, c takes the rest
    weights = shares([[5, 3, 2]])
    capped, held = cap_exposures(
        ["a", "b", "c"], weights, np.array([100, 200, 1000]), np.array([1.0]), 1000, 2.0, "water_fill"
    )
    assert np.allclose(capped[:, 0], [0.2, 0.4, 0.4]) and held.tolist() == [True, True, False]


def test_cap_exposures_budget_beyond_all_stock_is_an_error():
    with pytest.raises(ConfigError, match=r"300 tokens an epoch"):
        cap_exposures(["a", "b"], shares([[1, 1]]), np.array([100, 200]), np.array([1.0]), 1000, 2.0, "water_fill")


@given(
    stock=st.lists(st.integers(50, 5000), min_size=2, max_size=12),
    seed=st.integers(0, 10_000),
    cap=st.floats(0.5, 4.0),
    phases=st.integers(1, 3),
)
@settings(max_examples=150)
def test_cap_and_rounding_keep_sums_and_cap_or_refuse(stock, seed, cap, phases):
    random = np.random.default_rng(seed)
    weights = random.dirichlet(np.ones(len(stock)), size=phases).T
    phase_shares = random.dirichlet(np.ones(phases) * 5)
    available, names = np.array(stock), [f"c{i}" for i in range(len(stock))]
    budget = int(sum(stock) * cap * 0.6)
    try:
        capped, held = cap_exposures(names, weights, available, phase_shares, budget, cap, "water_fill")
    except ConfigError:
        assert phases > 1  # with one phase 60 % of the stock can always be had
        return
    assert np.allclose(capped.sum(axis=0), 1) and np.all(capped >= 0)
    assert np.all(exposures(capped, available, phase_shares, budget) <= cap * (1 + 1e-6))
    free = ~held
    for phase in range(phases):  # those not held keep their proportions to each other
        assert np.allclose(
            capped[free, phase] / capped[free, phase].sum(), weights[free, phase] / weights[free, phase].sum()
        )
    try:
        counts, down = round_to_block(
            names, capped, held, 4096, cap, lambda c, _: exposures(c / 4096, available, phase_shares, budget)
        )
    except ConfigError:
        return
    assert np.all(counts.sum(axis=0) == 4096) and np.all(down[held])
    assert np.all(exposures(counts / 4096, available, phase_shares, budget) <= cap * (1 + 1e-6))
    assert np.all(np.abs(counts - capped * 4096) <= len(stock))


def test_round_to_block_cap_that_no_rounding_keeps_is_refused():
    # Both at the cap exactly; 3 sequences cannot be halved.
    with pytest.raises(ConfigError, match="Raise block_sequences"):
        round_to_block(
            ["a", "b"],
            shares([[1, 1]]),
            np.array([True, True]),
            3,
            1.0,
            lambda counts, _: exposures(counts / 3, np.array([50, 50]), np.array([1.0]), 100),
        )
