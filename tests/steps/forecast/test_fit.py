"""The power-law fit against closed forms and against published figures."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import StepFailed
from steps.forecast.fit import fit_power_law, predict

# The ladder of Marin's 535B-A23B run (issue 8435 of marin-community/marin): training FLOPs without the output head, and
# the final dropless Paloma macro loss; the last rung's is its own extrapolation plus the hand-set 0.005.
LADDER_FLOPS = [2.649679880270119e19, 1.7261182741798453e20, 1.3813258500033133e21, 7.741814947656449e21]
LADDER_LOSSES = [3.01535, 2.78087, 2.56377, 2.7545320 - 0.3508239 + 0.005]
HERO_FLOPS = 2.6108941613772703e24


def test_fit_reproduces_the_published_projection_of_the_hero_run():
    law = fit_power_law(LADDER_FLOPS, LADDER_LOSSES, 1.5)
    assert law.amplitude == pytest.approx(84.788, abs=0.05)
    assert law.exponent == pytest.approx(0.08998, abs=2e-5)
    assert law(HERO_FLOPS) == pytest.approx(2.0388, abs=1e-4)


def test_predict_range_covers_the_published_leave_one_out_and_asymptotes():
    prediction = predict(LADDER_FLOPS, LADDER_LOSSES, HERO_FLOPS, asymptote=1.5, asymptote_range=(1.3, 1.7))
    assert min(prediction.leave_one_out) == pytest.approx(2.0378, abs=2e-4)
    assert max(prediction.leave_one_out) == pytest.approx(2.0415, abs=2e-4)
    assert prediction.by_asymptote == pytest.approx((2.0084, 2.0782), abs=2e-4)
    assert prediction.low <= prediction.loss <= prediction.high


@given(
    asymptote=st.floats(0.5, 2.0),
    amplitude=st.floats(1.0, 100.0),
    exponent=st.floats(0.02, 0.3),
    ratio=st.floats(1.5, 10.0),
)
def test_fit_recovers_an_exact_law(asymptote, amplitude, exponent, ratio):
    flops = [1e12 * ratio**i for i in range(4)]
    losses = [asymptote + amplitude * c**-exponent for c in flops]
    law = fit_power_law(flops, losses, asymptote)
    assert law.exponent == pytest.approx(exponent, rel=1e-3)
    assert law(1e12 * ratio**6) == pytest.approx(asymptote + amplitude * (1e12 * ratio**6) ** -exponent, rel=1e-6)


def test_fit_loss_below_the_asymptote_names_both():
    with pytest.raises(StepFailed, match=r"loss 1\.4 is not above the asymptote 1\.5"):
        fit_power_law([1e12, 2e12], [2.0, 1.4], 1.5)


def test_predict_two_rungs_are_refused():
    with pytest.raises(StepFailed, match="2 rungs; three or more"):
        predict([1e12, 2e12], [3.0, 2.9], 4e12, asymptote=1.5, asymptote_range=(1.4, 1.6))


def test_fit_equal_computes_are_refused():
    with pytest.raises(StepFailed, match="two or more different computes"):
        fit_power_law([1e12, 1e12], [3.0, 2.9], 1.5)
    assert math.isfinite(fit_power_law([1e12, 2e12], [3.0, 2.9], 1.5).exponent)
