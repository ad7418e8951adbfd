"""Laws in parameters and tokens, from runs whose law is known."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from marin_exec import ConfigError, StepFailed
from steps.forecast.forecast import NamedRun
from steps.forecast.isoflop import IsoFlopConfig, isoflop
from steps.forecast.isoflop_fit import lowest_point
from steps.forecast.observations import Observation
from steps.forecast.parametric import ParametricLawConfig, Size, parametric_law
from steps.forecast.parametric_fit import ParametricLaw, fit_parametric, without_each
from tests.directory_out import DirectoryOut

# Hoffmann et al. 2022, table A.3 (approach 3).
CHINCHILLA = ParametricLaw(1.69, 406.4, 0.34, 410.7, 0.28)


def runs(law=CHINCHILLA, sizes=(1e8, 3e8, 1e9, 3e9), ratios=(5, 20, 80)) -> list[Observation]:
    return [
        Observation(name=f"{n:.0e}x{r}", parameters=int(n), tokens=int(n * r), loss=law(int(n), int(n * r)))
        for n in sizes
        for r in ratios
    ]


def objective(law: ParametricLaw, observations: list[Observation], delta: float = 1e-3) -> float:
    """The sum that approach 3 minimises, as its paper writes it."""
    total = 0.0
    for each in observations:
        error = abs(math.log(law(each.parameters, each.tokens)) - math.log(each.loss))
        total += error**2 / 2 if error <= delta else delta * (error - delta / 2)
    return total


def test_exact_law_is_found():
    law = fit_parametric(runs())
    assert law.asymptote == pytest.approx(1.69, rel=1e-4)
    assert (law.parameter_exponent, law.token_exponent) == pytest.approx((0.34, 0.28), rel=1e-3)
    assert (law.parameter_amplitude, law.token_amplitude) == pytest.approx((406.4, 410.7), rel=1e-2)
    assert law(7e10, 1.4e12) == pytest.approx(CHINCHILLA(7e10, 1.4e12), abs=1e-5)


def test_noisy_fit_is_a_minimum_that_nothing_near_it_beats():
    rng = np.random.default_rng(0)
    noisy = [replace(each, loss=each.loss * math.exp(0.002 * rng.standard_normal())) for each in runs()]
    law = fit_parametric(noisy)
    best = objective(law, noisy)
    assert best <= objective(CHINCHILLA, noisy)
    for field in ("asymptote", "parameter_amplitude", "parameter_exponent", "token_amplitude", "token_exponent"):
        for factor in (0.999, 1.001):
            assert objective(replace(law, **{field: getattr(law, field) * factor}), noisy) >= best


def test_one_wrong_run_among_many_hardly_counts():
    observations = runs()
    observations[5] = replace(observations[5], loss=observations[5].loss * 1.1)
    law = fit_parametric(observations)
    assert law(7e10, 1.4e12) == pytest.approx(CHINCHILLA(7e10, 1.4e12), abs=0.01)
    assert len(without_each(observations, law)) == len(observations)


def test_optimum_is_where_a_search_finds_it():
    parameters, tokens = CHINCHILLA.optimum(1e23)
    assert 6 * parameters * tokens == pytest.approx(1e23)
    tried = np.exp(np.linspace(math.log(parameters) - 2, math.log(parameters) + 2, 4001))
    losses = [CHINCHILLA(n, 1e23 / 6 / n) for n in tried]
    assert tried[int(np.argmin(losses))] == pytest.approx(parameters, rel=2e-3)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (runs()[:5], "5 runs; it has five parameters, and 6 runs or more"),
        (runs(sizes=np.geomspace(1e8, 1e10, 8), ratios=(791,)), r"ln D deviates by .* Add runs of one size and other lengths"),
        (runs(sizes=(1e9,), ratios=range(10, 90, 10)), "runs of one size"),
        (runs(CHINCHILLA.__class__(1.69, -50.0, 0.2, 410.7, 0.28)), "do not fall with both"),
    ],
)  # fmt: skip
def test_runs_that_decide_no_law_are_refused(observations, message):
    with pytest.raises(StepFailed, match=message):
        fit_parametric(observations)


def test_parametric_step_reads_runs_and_states_a_range(tmp_path):
    observations = runs()
    (tmp_path / "run").mkdir()
    own = {"active_parameters": 5 * 10**8, "total_parameters": 10**9, "tokens": 10**10, "flops": 3 * 10**19}
    (tmp_path / "run/run.json").write_text(json.dumps({"num_steps": 10, **own}))
    row = {"progress": 1.0, "macro_loss": CHINCHILLA(5 * 10**8, 10**10)}
    (tmp_path / "run/evals.jsonl").write_text(json.dumps(row) + "\n")
    config = ParametricLawConfig(
        observations=tuple(observations),
        runs=(NamedRun(name="own", run=str(tmp_path / "run")),),
        targets=(Size(name="70B", parameters=7 * 10**10, tokens=14 * 10**11),),
    )
    result = parametric_law(config, DirectoryOut(tmp_path))
    assert result.num_runs == 13 and result.largest_error < 1e-5
    (target,) = json.loads((tmp_path / "law.json").read_text())["targets"]
    assert target["low"] <= target["loss"] == result.predictions["70B"] <= target["high"]
    assert target["loss"] == pytest.approx(CHINCHILLA(7e10, 1.4e12), abs=1e-4)
    with pytest.raises(StepFailed, match="each needs a name of its own"):
        parametric_law(ParametricLawConfig(observations=(*observations, observations[0])), DirectoryOut(tmp_path))


def parabolas(exponent=0.5, amplitude=0.1, budgets=(1e18, 1e19, 1e20)) -> tuple[Observation, ...]:
    """Runs whose loss is a parabola in ln N about N = amplitude * C**exponent, exactly."""
    found = []
    for flops in budgets:
        best = amplitude * flops**exponent
        for step in (-1.0, -0.3, 0.4, 1.2):
            n = best * math.exp(step)
            loss = 2 + 1e3 * flops**-0.15 + 0.05 * step**2
            found.append(
                Observation(name=f"{flops:.0e}{step}", parameters=round(n), tokens=round(flops / 6 / n), loss=loss)
            )
    return tuple(found)


def test_exact_parabolas_give_their_power_laws(tmp_path):
    config = IsoFlopConfig(budgets_flops=(1e20, 1e18, 1e19), observations=parabolas(), target_flops=(1e24,))
    result = isoflop(config, DirectoryOut(tmp_path))
    assert (result.parameter_exponent, result.token_exponent) == pytest.approx((0.5, 0.5), abs=1e-6)
    assert (result.parameter_amplitude, result.token_amplitude) == pytest.approx((0.1, 1 / 0.6), rel=1e-4)
    assert [each.flops for each in result.lowest] == [1e18, 1e19, 1e20]
    assert result.lowest[0].loss == pytest.approx(2 + 1e3 * 1e18**-0.15) and result.lowest[0].largest_error < 1e-6
    parameters, tokens = result.targets["1e+24"]
    assert (parameters, tokens) == pytest.approx((1e11, 1e24 / 6e11), rel=1e-4)


def test_both_approaches_agree_on_a_known_law():
    config_budgets = (1e19, 1e20, 1e21, 1e22)
    found = []
    for flops in config_budgets:
        best, _ = CHINCHILLA.optimum(flops)
        for step in np.linspace(-0.5, 0.5, 5):
            n = round(best * math.exp(step))
            d = round(flops / 6 / n)
            lowest = Observation(name=f"{flops}{step}", parameters=n, tokens=d, loss=CHINCHILLA(n, d))
            found.append(lowest)
        point = lowest_point(flops, found[-5:])
        assert point.parameters == pytest.approx(best, rel=0.02)
    law = fit_parametric(found)
    assert law.optimum(1e23)[0] == pytest.approx(CHINCHILLA.optimum(1e23)[0], rel=0.02)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (lambda i, o: i % 4 < 2, r"2 sizes at 1e\+18 FLOPs; a parabola needs 3"),
        (lambda i, o: i % 4 != 0 or o.compute > 2e18, None),
    ],
)
def test_budgets_with_too_few_sizes_are_refused(tmp_path, kept, message):
    chosen = tuple(each for index, each in enumerate(parabolas()) if kept(index, each))
    config = IsoFlopConfig(budgets_flops=(1e18, 1e19, 1e20), observations=chosen)
    if message is None:
        assert isoflop(config, DirectoryOut(tmp_path)).parameter_exponent == pytest.approx(0.5, abs=1e-6)
        return
    with pytest.raises(StepFailed, match=message):
        isoflop(config, DirectoryOut(tmp_path))


def test_runs_without_a_lowest_point_and_strays_are_refused(tmp_path):
    observations = parabolas()
    falling = tuple(replace(each, loss=8.0 - each.loss) for each in observations)
    with pytest.raises(StepFailed, match="have no lowest point"):
        isoflop(IsoFlopConfig(budgets_flops=(1e18, 1e19, 1e20), observations=falling), DirectoryOut(tmp_path))
    outside = [replace(each, parameters=each.parameters * 20) for each in observations[1:4]]
    shifted = [replace(each, loss=3 + 0.1 * (math.log(each.parameters) - 10) ** 2) for each in outside]
    with pytest.raises(StepFailed, match="outside the sizes tried"):
        lowest_point(1e18, shifted)
    with pytest.raises(StepFailed, match=r"run 1e\+19-1.0 has 1e\+19 FLOPs, the nearest budget is 1e\+18"):
        isoflop(IsoFlopConfig(budgets_flops=(1e18, 1e21), observations=observations), DirectoryOut(tmp_path))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"budgets_flops": (1e18,)}, "two or more budgets"),
        ({"budgets_flops": (1e18, -1.0)}, "values above 0"),
        ({"tolerance": 0.0}, "tolerance: 0.0"),
    ],
)
def test_isoflop_config_that_cannot_be_is_refused(changed, message):
    with pytest.raises(ConfigError, match=message):
        IsoFlopConfig(**{"budgets_flops": (1e18, 1e19), **changed})
