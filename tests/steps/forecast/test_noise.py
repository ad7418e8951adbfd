"""Noise of an evaluation: from curves whose noise is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import StepFailed
from steps.forecast.curves import Curve
from steps.forecast.noise import evaluation_noise

MARKS = [round(0.05 * k, 6) for k in range(1, 21)]
NAMES = ("books", "code", "web")


def curve(sets: dict[str, list[float]]) -> Curve:
    by_set = {name: dict(zip(MARKS, losses, strict=True)) for name, losses in sets.items()}
    macro = {mark: float(np.mean([losses[mark] for losses in by_set.values()])) for mark in MARKS}
    return Curve("r", 100, {"flops": 1e18}, macro, by_set)


def noisy(covariance: np.ndarray, seed: int) -> Curve:
    noise = np.random.default_rng(seed).multivariate_normal(np.zeros(len(NAMES)), covariance, size=len(MARKS))
    rate = 1 - 0.95 * np.array(MARKS)
    course = 2 + np.exp(-2 * np.array(MARKS))
    return curve({name: list(course + rate * noise[:, i]) for i, name in enumerate(NAMES)})


def test_known_covariance_is_found_with_each_sets_share():
    # Two sets swing together, one is quiet: as PTB and tweets among the sets of Paloma.
    covariance = np.array([[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.01]]) * 1e-4
    found = evaluation_noise([noisy(covariance, seed) for seed in range(40)], 0.05)
    assert found.deviation == pytest.approx(np.sqrt(covariance.sum()) / 3, rel=0.1)
    assert found.deviation_if_independent == pytest.approx(np.sqrt(np.trace(covariance)) / 3, rel=0.1)
    assert found.sets["books"].deviation == pytest.approx(0.02, rel=0.1)
    assert found.sets["books"].share_of_macro_variance == pytest.approx(0.5, abs=0.05)
    assert found.sets["web"].share_of_macro_variance == pytest.approx(0.0, abs=0.03)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_sets_explain_the_whole_noise_of_their_mean(seed):
    rng = np.random.default_rng(seed)
    whole = curve({name: list(3 + 0.1 * rng.standard_normal(len(MARKS))) for name in NAMES})
    only_macro = Curve("r", 100, {"flops": 1e18}, whole.losses)
    found = evaluation_noise([whole], 0.05)
    assert sum(each.share_of_macro_variance for each in found.sets.values()) == pytest.approx(1)
    assert found.deviation == pytest.approx(evaluation_noise([only_macro], 0.05).deviation)


def test_straight_course_has_no_noise():
    straight = Curve("r", 100, {"flops": 1e18}, {mark: 3 - mark for mark in MARKS})
    found = evaluation_noise([straight], 0.05)
    assert found.deviation == pytest.approx(0, abs=1e-12) and found.sets == {} and found.num_differences == 17


def test_too_few_evaluations_are_refused():
    with pytest.raises(StepFailed, match="no rung has three evaluations"):
        evaluation_noise([Curve("r", 100, {"flops": 1e18}, {0.5: 3.0, 1.0: 2.9})], 0.05)
