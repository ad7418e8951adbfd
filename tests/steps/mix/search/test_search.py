"""Surrogate, candidate and gain on runs whose losses are a known function of their mixture."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from marin_exec import ConfigError, StepFailed
from steps.mix.mixture import read_mixture
from steps.mix.search.candidate import CandidateConfig, mixture_candidate
from steps.mix.search.features import mixture_features
from steps.mix.search.gain import GainConfig, mixture_gain
from steps.mix.search.surrogate import SurrogateConfig, mixture_surrogate
from tests.directory_out import DirectoryOut
from tests.steps.mix.search.made_runs import (
    CELLS,
    LENGTH,
    TARGET,
    make_mixture,
    make_swarm,
    shares_of,
    write_index_only,
    write_run,
)

NOISE = 0.003
TOPIC_1 = np.array([name.startswith("c01") for name in sorted(CELLS)])
BEST_BUCKET = np.array([name.endswith("q2") for name in sorted(CELLS)])


def true_loss(shares: np.ndarray) -> float:
    """Falls as topic 1 nears half of the first phase, and as the best quality bucket rises in the last."""
    return 5.0 + 0.4 * (shares[0, TOPIC_1].sum() - 0.5) ** 2 - 0.1 * np.sqrt(shares[1, BEST_BUCKET].sum())


def noisy_loss(shares: np.ndarray, number: int) -> float:
    return true_loss(shares) + NOISE * np.random.default_rng([7, number]).standard_normal()


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    return write_index_only(tmp_path_factory.mktemp("tokens"), CELLS)


@pytest.fixture(scope="module")
def swarm(store, tmp_path_factory):
    return make_swarm(tmp_path_factory.mktemp("swarm"), store, noisy_loss, 32)


@pytest.fixture(scope="module")
def surrogate(store, swarm, tmp_path_factory):
    path = tmp_path_factory.mktemp("surrogate")
    return str(path), mixture_surrogate(SurrogateConfig(tokens=store, runs=swarm), DirectoryOut(path))


def candidate_config(store: str, surrogate: str, **changes) -> CandidateConfig:
    config = CandidateConfig(
        tokens=store,
        surrogate=surrogate,
        sequence_length=LENGTH,
        budgets_tokens=(TARGET,),
        block_sequences=256,
        min_sequences=4,
        num_samples=200,
        num_rounds=3,
    )
    return dataclasses.replace(config, **changes)


def test_surrogate_knows_mixtures_that_it_has_not_seen(surrogate):
    _, result = surrogate
    assert result.rmse < 0.5 * result.rmse_of_mean and result.spearman > 0.8
    assert result.rmse == result.rmse_by_kernel[result.kernel] == min(result.rmse_by_kernel.values())
    assert result.coverage_95_calibrated >= 0.85


def test_surrogate_of_losses_that_are_luck_says_that_it_knows_nothing(store, tmp_path):
    random = np.random.default_rng(0)
    runs = make_swarm(tmp_path / "swarm", store, lambda shares, number: 5 + 0.01 * random.standard_normal(), 24)
    result = mixture_surrogate(SurrogateConfig(tokens=store, runs=runs), DirectoryOut(tmp_path / "s"))
    assert result.rmse > 0.85 * result.rmse_of_mean and result.spearman < 0.6
    found = mixture_candidate(candidate_config(store, str(tmp_path / "s")), DirectoryOut(tmp_path / "c"))
    assert found.predicted_gain < 0.01  # the noise itself
    assert found.predicted_gain < 2.5 * found.predicted_gain_deviation + 1e-6


def test_candidate_is_better_by_what_was_predicted(store, surrogate, tmp_path):
    result = mixture_candidate(candidate_config(store, surrogate[0]), DirectoryOut(tmp_path / "candidate"))
    candidate = make_mixture(tmp_path / "mixture", store, str(tmp_path / "candidate/weights.json"))
    shares = shares_of(candidate, store)
    proportional = np.array([[CELLS[name] for name in sorted(CELLS)]] * 2, dtype=float)
    proportional /= proportional.sum(axis=1, keepdims=True)
    gain = true_loss(proportional) - true_loss(shares)
    assert gain > 0.5 * (true_loss(proportional) - (5.0 - 0.1 * np.sqrt(0.9)))  # most of what there is to be had
    assert abs(gain - result.predicted_gain) < 3 * result.predicted_gain_deviation + 0.005
    assert any(name.startswith("c01") for name in result.most_raised)
    assert 0.1 < result.distance < 1


def test_candidate_laid_out_again_is_the_mixture_that_was_judged(store, surrogate, tmp_path):
    """Predictions are of lattice weights: a candidate that is rounded or capped afterwards is another mixture."""
    mixture_candidate(candidate_config(store, surrogate[0], max_epochs=2.0), DirectoryOut(tmp_path / "candidate"))
    laid_out = make_mixture(tmp_path / "mixture", store, str(tmp_path / "candidate/weights.json"), max_epochs=2.0)
    page = json.loads((tmp_path / "candidate/candidates.json").read_text())
    assert shares_of(laid_out, store) == pytest.approx(np.array(page["candidates"][0]["shares"]), abs=2 / 256)


@pytest.mark.parametrize("max_epochs", [1.5, 2.0])
def test_candidate_keeps_to_the_cap_on_epochs(store, surrogate, tmp_path, max_epochs):
    config = candidate_config(store, surrogate[0], max_epochs=max_epochs)
    result = mixture_candidate(config, DirectoryOut(tmp_path / "candidate"))
    assert result.largest_exposure <= max_epochs + 1e-9
    path = make_mixture(tmp_path / "mixture", store, str(tmp_path / "candidate/weights.json"), max_epochs=max_epochs)
    mixture = read_mixture(path)
    assert max(each.exposures[0] for each in mixture.components) <= max_epochs + 1e-9


@pytest.mark.parametrize("reach", [0.6, 1.2])
def test_candidate_stays_within_reach_of_the_runs(store, swarm, surrogate, tmp_path, reach):
    """A surrogate that goes on in a straight line promised three times the best gain of any run, far from all of them."""
    config = candidate_config(store, surrogate[0], reach=reach, num_rounds=2)
    result = mixture_candidate(config, DirectoryOut(tmp_path / "candidate"))
    runs = np.stack([shares_of(each.mixture, store) for each in swarm])
    chosen = np.array(json.loads((tmp_path / "candidate/candidates.json").read_text())["candidates"][0]["shares"])
    features = mixture_features(np.stack([*runs, chosen]), sorted(CELLS))
    apart = np.linalg.norm(features[:, None] - features[None], axis=2) + np.where(np.eye(len(features)), np.inf, 0)
    unit = np.median(apart[:-1, :-1].min(axis=1))
    assert result.nearest_run == pytest.approx(apart[-1, :-1].min() / unit, abs=1e-6) and result.nearest_run <= reach


def test_candidate_more_caution_stays_nearer_to_what_was_seen(store, surrogate, tmp_path):
    changes = {"reach": 100.0, "num_rounds": 2}
    bold, careful = (
        mixture_candidate(
            candidate_config(store, surrogate[0], caution=caution, **changes), DirectoryOut(tmp_path / name)
        )
        for name, caution in (("bold", 0.0), ("careful", 20.0))
    )
    assert careful.predicted_deviation < bold.predicted_deviation and careful.predicted_loss > bold.predicted_loss


@pytest.mark.slow
def test_surrogate_and_candidate_same_bytes_with_more_blas_threads(store, swarm, tmp_path):
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            surrogate, candidate = tmp_path / f"s{threads}", tmp_path / f"c{threads}"
            mixture_surrogate(SurrogateConfig(tokens=store, runs=swarm[:12]), DirectoryOut(surrogate))
            mixture_candidate(candidate_config(store, str(surrogate), num_rounds=1), DirectoryOut(candidate))
    for name in ("s{}/surrogate.json", "c{}/weights.json", "c{}/candidates.json"):
        assert (tmp_path / name.format(1)).read_bytes() == (tmp_path / name.format(2)).read_bytes()


def test_surrogate_runs_that_differ_in_more_than_the_mixture_are_refused(store, swarm, tmp_path):
    other = dataclasses.replace(swarm[3], run=write_run(tmp_path / "run", 5.0, seed=1))
    runs = (*swarm[:3], other, *swarm[4:8])
    with pytest.raises(StepFailed, match="design-003 differs from design-000 in seed"):
        mixture_surrogate(SurrogateConfig(tokens=store, runs=runs), DirectoryOut(tmp_path / "s"))
    mixture = make_mixture(
        tmp_path / "m", store, str(Path(swarm[0].mixture).parent / "designs/design-003.json"), block_sequences=128
    )
    runs = (*swarm[:3], dataclasses.replace(swarm[3], mixture=mixture), *swarm[4:8])
    with pytest.raises(StepFailed, match="differs from design-000 in mixture"):
        mixture_surrogate(SurrogateConfig(tokens=store, runs=runs), DirectoryOut(tmp_path / "s"))


def test_surrogate_too_little_to_learn_from_is_refused(store, swarm, tmp_path):
    with pytest.raises(StepFailed, match="at least 6"):
        mixture_surrogate(SurrogateConfig(tokens=store, runs=swarm[:5]), DirectoryOut(tmp_path / "s"))
    same = write_run(tmp_path / "run", 5.0)
    runs = tuple(dataclasses.replace(each, run=same) for each in swarm[:8])
    with pytest.raises(StepFailed, match="all 8 runs have the loss"):
        mixture_surrogate(SurrogateConfig(tokens=store, runs=runs), DirectoryOut(tmp_path / "s"))


def test_search_on_another_store_with_the_same_cells_is_refused(store, swarm, surrogate, tmp_path):
    """What was learnt of cells is stranded when topics or buckets are made anew, even where all names stay."""
    other = write_index_only(tmp_path / "other", CELLS, digest="1" * 32)
    with pytest.raises(StepFailed, match="design-000 was made for the token store"):
        mixture_surrogate(SurrogateConfig(tokens=other, runs=swarm), DirectoryOut(tmp_path / "s"))
    with pytest.raises(StepFailed, match="made for the token store"):
        mixture_candidate(candidate_config(other, surrogate[0]), DirectoryOut(tmp_path / "c"))
    with pytest.raises(StepFailed, match="weights for the token store"):
        make_mixture(tmp_path / "m", other, str(Path(swarm[0].mixture).parent / "designs/design-000.json"))


def test_candidate_with_other_phases_than_the_runs_is_refused(store, surrogate, tmp_path):
    with pytest.raises(StepFailed, match="1 phases, but the runs"):
        mixture_candidate(candidate_config(store, surrogate[0], phase_starts=(0.0,)), DirectoryOut(tmp_path))


def gain_config(path: Path, pairs: dict[int, tuple[float, float]], **changes) -> GainConfig:
    (path / "candidate").mkdir()
    (path / "candidate/candidates.json").write_text('{"predicted_gain": 0.02, "predicted_gain_deviation": 0.005}')
    runs = {
        name: tuple(write_run(path / f"{name}-{seed}", losses[i], seed=seed) for seed, losses in pairs.items())
        for i, name in enumerate(("candidate_runs", "proportional_runs"))
    }
    return GainConfig(**{"predictions": str(path / "candidate"), "proxy_seed": 0, **runs, **changes})


def test_gain_is_the_mean_difference_of_pairs(tmp_path):
    result = mixture_gain(gain_config(tmp_path, {1: (4.97, 5.0), 2: (4.99, 5.0)}), DirectoryOut(tmp_path / "out"))
    assert result.gain == pytest.approx(0.02) and result.gain_error == pytest.approx(0.01)  # differences .03 and .01
    assert result.gain_by_set == pytest.approx({"code": 0.02, "prose": 0.02})
    assert result.better_in_every_seed and result.within_prediction and result.seeds == [1, 2]


def test_gain_far_from_the_prediction_is_said_so(tmp_path):
    result = mixture_gain(gain_config(tmp_path, {1: (5.03, 5.0), 2: (5.031, 5.0)}), DirectoryOut(tmp_path / "out"))
    assert result.gain < 0 and not result.better_in_every_seed and not result.within_prediction


def test_gain_of_the_proxies_own_seed_or_one_seed_twice_is_refused(tmp_path):
    """The candidate was chosen by runs of the proxies' seed: on it, luck counts as gain."""
    config = gain_config(tmp_path, {0: (4.9, 5.0), 1: (4.9, 5.0)})
    twice = {name: getattr(config, name)[1:] * 2 for name in ("candidate_runs", "proportional_runs")}
    for refused in (config, dataclasses.replace(config, **twice)):
        with pytest.raises(StepFailed, match="each pair needs its own"):
            mixture_gain(refused, DirectoryOut(tmp_path / "out"))


def test_gain_pairs_that_differ_in_more_than_the_mixture_are_refused(tmp_path):
    config = gain_config(tmp_path, {1: (4.9, 5.0), 2: (4.9, 5.0)})
    config = dataclasses.replace(config, proportional_runs=config.proportional_runs[::-1])
    with pytest.raises(StepFailed, match="differ in seed"):
        mixture_gain(config, DirectoryOut(tmp_path / "out"))
    with pytest.raises(ConfigError, match="two or more pairs"):
        dataclasses.replace(config, candidate_runs=config.candidate_runs[:1])
