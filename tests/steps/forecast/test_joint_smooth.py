"""The joint fit against a plain reference, against laws that are known, and on the published ladder."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marin_exec import ConfigError, StepFailed
from steps.forecast import joint_model
from steps.forecast.curves import Curve
from steps.forecast.holdout import held_out_rows
from steps.forecast.joint_smooth import JointSmooth
from steps.forecast.public_figures import PublicFiguresConfig, ladder_of, read_figures, target_flops
from steps.forecast.scoring import summary

DOCUMENTATION = Path(__file__).parents[3] / "docs/forecast.md"
MARKS = [0.125 * k for k in range(1, 9)]
FLOPS = (1e18, 5e18, 2.5e19, 1.25e20)
TARGET = 1e22
METHOD = JointSmooth(computes=("flops",))


def law(flops: float, mark: float, asymptote: float = 1.5) -> float:
    """A known law of the family: an exponent that grows a little as the learning rate falls."""
    return asymptote + math.exp(3.3 - (0.08 + 0.004 * mark) * math.log(flops) - 0.05 * math.log(mark) - 0.1 * mark)


def ladder(noise: float = 0.003, seed: int = 0, asymptote: float = 1.5) -> list[Curve]:
    rng = np.random.default_rng(seed)
    return [
        Curve(
            f"r{i}",
            1000,
            {"flops": flops},
            {m: law(flops, m, asymptote) + noise * (1 - 0.95 * m) * rng.standard_normal() for m in MARKS},
        )
        for i, flops in enumerate(FLOPS)
    ]


def reference_posterior(observed, wanted, mean, deviation):
    """ln weight, E, mean and variance of ln(loss - E) of each component, from the covariance of every pair of places."""
    places = list(zip(observed.progress_N, observed.log_flops_N, observed.rung_N, strict=True))
    centre = np.mean([next(x for g, x, r in places if r == rung) for rung in sorted(set(observed.rung_N))])
    places += [(g, wanted.log_flops, -1 if wanted.rung is None else wanted.rung) for g in wanted.progress_M]
    n = len(observed.losses_N)

    def covariance(p, q, common, tilt, own):
        (g, x, r), (h, y, s) = p, q
        x, y, u = x - centre, y - centre, math.log(g) - math.log(h)
        linear = 9 + 1 * math.log(g) * math.log(h) + 4 * g * h + 0.05**2 * x * y
        smooth = common**2 * math.exp(-(u**2) / (2 * 0.7**2)) + tilt**2 * x * y * math.exp(-(u**2) / (2 * 1.5**2))
        return linear + smooth + (own**2 * (0.5 + 0.5 * math.exp(-(u**2) / (2 * 0.7**2))) if r == s else 0.0)

    prior_mean = np.array([-0.08 * (x - centre) for _, x, _ in places])
    for scales in itertools.product((0.03, 0.1, 0.3), (0.002, 0.005, 0.01), (0.001, 0.002, 0.004, 0.008, 0.016)):
        whole = np.array([[covariance(p, q, *scales) for q in places] for p in places])
        for asymptote in np.linspace(mean - 3 * deviation, mean + 3 * deviation, 25):
            if asymptote >= observed.losses_N.min() - 0.05:
                continue
            gap = observed.losses_N - asymptote
            seen = whole[:n, :n] + np.diag((observed.noise_N / gap) ** 2)
            residual = np.log(gap) - prior_mean[:n]
            inverse = np.linalg.inv(seen)
            log_weight = (
                -0.5 * residual @ inverse @ residual - 0.5 * np.linalg.slogdet(seen)[1] - np.log(gap).sum()
                - 0.5 * ((asymptote - mean) / deviation) ** 2
            )  # fmt: skip
            cross = whole[n:, :n]
            yield (
                log_weight,
                asymptote,
                prior_mean[n:] + cross @ inverse @ residual,
                np.diag(whole[n:, n:] - cross @ inverse @ cross.T),
            )


def test_posterior_is_that_of_the_written_model():
    curves = ladder()[:2]
    marks = MARKS[3::4]
    rows = [(m, math.log(c.flops["flops"]), c.losses[m], i) for i, c in enumerate(curves) for m in marks]
    g, x, losses, rung = (np.array(each) for each in zip(*rows, strict=True))
    observed = joint_model.Observed(g, x, losses, np.full(len(g), 0.004), rung)
    for of in (None, 1):
        wanted = joint_model.Wanted(np.array([0.25, 1.0]), math.log(TARGET if of is None else FLOPS[1]), of)
        found = joint_model.posterior(observed, wanted, 1.5, 0.2)
        expected = list(reference_posterior(observed, wanted, 1.5, 0.2))
        weights = np.array([each[0] for each in expected])
        assert found.log_weight_K - found.log_weight_K.max() == pytest.approx(weights - weights.max(), abs=1e-6)
        assert found.asymptote_K == pytest.approx([each[1] for each in expected])
        assert found.mean_KM == pytest.approx(np.stack([each[2] for each in expected]), abs=1e-8)
        assert found.variance_KM == pytest.approx(np.stack([each[3] for each in expected]), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("asymptote", [1.3, 1.6])
def test_known_law_lies_in_the_interval_at_every_mark(asymptote):
    made = METHOD.forecast(ladder(asymptote=asymptote), {"flops": TARGET}, MARKS)
    for mark in made.marks:
        assert mark.low <= law(TARGET, mark.progress, asymptote) <= mark.high
    assert made.marks[-1].high - made.marks[-1].low < 0.25


@pytest.mark.parametrize("seed", [1, 2])
def test_forecast_never_rises_along_the_run_however_noisy_the_rungs(seed):
    made = METHOD.forecast(ladder(noise=0.05, seed=seed), {"flops": TARGET}, MARKS)
    for values in ([m.loss for m in made.marks], [m.low for m in made.marks], [m.high for m in made.marks]):
        assert values == sorted(values, reverse=True)
    for mark in made.marks:
        inner, outer = mark.bands
        assert outer.low <= inner.low <= mark.loss <= inner.high <= outer.high
        assert (mark.low, mark.high) == (outer.low, outer.high)


def test_rung_that_stopped_is_told_its_end_and_widens_the_forecast():
    whole = ladder()
    short = whole[-1]
    cut = Curve(short.name, short.num_steps, short.flops, {m: short.losses[m] for m in MARKS[:5]})
    made = METHOD.forecast([*whole[:-1], cut], {"flops": TARGET}, MARKS)
    (unfinished,) = made.details["unfinished"]
    assert unfinished["rung"] == "r3" and made.last_rung_loss == unfinished["final_loss"]
    assert unfinished["bands"][-1]["low"] <= short.losses[1.0] <= unfinished["bands"][-1]["high"]
    complete = METHOD.forecast(whole, {"flops": TARGET}, MARKS)
    assert complete.details["unfinished"] == [] and complete.last_rung_loss == short.losses[1.0]
    assert complete.marks[-1].high - complete.marks[-1].low < made.marks[-1].high - made.marks[-1].low


def test_parts_of_the_uncertainty_add_up_and_more_noise_is_seen_as_noise():
    quiet, loud = (METHOD.forecast(ladder(noise=n), {"flops": TARGET}, MARKS).details for n in (0.002, 0.02))
    for details in (quiet, loud):
        parts = dict(details["deviation_at_the_end"])
        assert math.hypot(*(v for name, v in parts.items() if name != "total")) == pytest.approx(parts["total"])
    assert loud["noise"]["deviation"] > 3 * quiet["noise"]["deviation"]
    assert sum(quiet["compute_weights"].values()) == pytest.approx(1)


def test_published_ladder_forecast_and_the_rung_held_out():
    figures = read_figures(PublicFiguresConfig())
    curves, marks = ladder_of(figures), [round(0.05 * k, 6) for k in range(1, 21)]
    made = JointSmooth().forecast(curves, target_flops(figures), marks)
    assert [row[3:] for row in documented()] == [
        [f"{mark.loss:.4f}", *(f"{band.low:.4f} to {band.high:.4f}" for band in mark.bands)] for mark in made.marks
    ]
    final = made.marks[-1]
    assert (final.low, final.loss, final.high) == pytest.approx((1.9786, 2.0188, 2.0617), abs=1e-4)
    assert made.details["unfinished"][0]["final_loss"] == pytest.approx(2.4072, abs=1e-4)
    held_out = summary(held_out_rows(JointSmooth(), curves))
    assert held_out.num_points == 16 and held_out.bias == pytest.approx(0.0047, abs=1e-4)
    assert held_out.coverage["95%"] == 1.0


def test_seeds_that_were_measured_bound_how_near_a_run_lies_to_the_law():
    plain, seeded = (
        replace(METHOD, seed_deviation=deviation).forecast(ladder(), {"flops": TARGET}, MARKS)
        for deviation in (None, 0.02)
    )
    lowest = min(min(curve.losses.values()) for curve in ladder())
    assert seeded.details["rung_deviation"] >= 0.02 / (lowest - 1.5) > plain.details["rung_deviation"]
    assert seeded.marks[-1].high - seeded.marks[-1].low > plain.marks[-1].high - plain.marks[-1].low


def documented() -> list[list[str]]:
    """Returns the cells of the table of forecasts in docs/forecast.md."""
    _, table = DOCUMENTATION.read_text().split("<!-- figures: forecast of the hero -->\n")
    rows = table.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_documented_table_holds_the_published_forecast():
    published = read_figures(PublicFiguresConfig())["published_forecast"]["rows"]
    assert [row[:3] for row in documented()] == [
        [f"{mark:.0%}".replace("%", " %"), f"{loss:.4f}", f"{low:.4f} to {high:.4f}"]
        for mark, loss, low, high in published
    ]


def test_order_of_losses_does_not_change_a_bit():
    curves = ladder()
    turned = [Curve(c.name, c.num_steps, c.flops, dict(reversed(c.losses.items()))) for c in curves]
    assert METHOD.forecast(curves, {"flops": TARGET}, MARKS) == METHOD.forecast(turned, {"flops": TARGET}, MARKS)


def test_evaluations_that_are_not_evenly_spaced_are_refused():
    curves = ladder()
    gap = {mark: loss for mark, loss in curves[1].losses.items() if mark != MARKS[3]}
    curves[1] = Curve("r1", 1000, curves[1].flops, gap)
    with pytest.raises(StepFailed, match="evenly spaced marks from the first interval on are needed"):
        METHOD.forecast(curves, {"flops": TARGET}, MARKS)


def test_losses_below_every_asymptote_are_refused():
    with pytest.raises(StepFailed, match=r"is not above any asymptote of the prior \(4\.4 and up\)"):
        JointSmooth(asymptote_mean=5.0, computes=("flops",)).forecast(ladder(), {"flops": TARGET}, MARKS)
    with pytest.raises(StepFailed, match="1 rungs; two or more"):
        METHOD.forecast(ladder()[:1], {"flops": TARGET}, MARKS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"asymptote_deviation": 0.0}, "asymptote_deviation: 0.0; a value above 0"),
        ({"computes": ()}, "computes: .*one or both of flops, flops_with_lm_head"),
        ({"computes": ("tokens",)}, "computes: .*tokens"),
        ({"levels": (0.95, 0.8)}, "levels: .*rising values"),
        ({"levels": (0.8, 1.0)}, "levels: .*below 1"),
        ({"seed_deviation": 0.0}, "seed_deviation: 0.0; a value above 0"),
        ({"final_rate_share": 1.5}, "final_rate_share: 1.5"),
    ],
)
def test_method_that_cannot_be_is_refused_when_it_is_declared(changed, message):
    with pytest.raises(ConfigError, match=message):
        JointSmooth(**changed)
