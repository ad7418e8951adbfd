"""mix/candidate: the mixture that a surrogate expects to do best, within the cap on epochs, and what it expects of it.

    weights.json       the candidate's weights (steps/mix/weights_file.py), for mix/weights
    candidates.json    shares of cells, prediction and deviation of the best; the gain predicted for the first

Mixtures are drawn around the proportional one and around the runs, then, round after round, around the best so far. The
best of each round are laid out on the block's lattice within the cap, as a run would see them, and judged as such: lowest
predicted loss plus `caution` deviations, among those that lie as near to a run as runs lie to each other. Further out, a
surrogate promises what no run has shown.
"""

from dataclasses import dataclass

import numpy as np

from marin_exec import InputPath, Out, StepFailed, kind
from steps.config_checks import check_number
from steps.files import write_json
from steps.mix.layout import Layout, check_budgets, lay_out
from steps.mix.mixture import Mixture
from steps.mix.search.designs import check_phase_starts
from steps.mix.search.features import cell_shares, mixture_features
from steps.mix.search.regression import Fitted
from steps.mix.search.sampling import sample_mixture
from steps.mix.search.surrogate import read_surrogate
from steps.mix.weights import Proportional, phase_weights
from steps.mix.weights_file import cell_weights, write_weights
from steps.tokenize.store import TokenIndex, read_index

WEIGHTS_FILE = "weights.json"
_LAID_OUT = 16  # of each round
_WRITTEN = 20
_WIDE, _NARROW = (8.0, 128.0), (64.0, 1024.0)  # concentrations around the start, and around the best


@dataclass(frozen=True, kw_only=True)
class CandidateConfig:
    tokens: InputPath
    """Token store of the training cells (tokenize/cache)."""
    surrogate: InputPath
    """Output of mix/surrogate on that store."""
    sequence_length: int
    """Tokens that a training sequence predicts."""
    budgets_tokens: tuple[int, ...]
    """Token budgets of the runs that will use the mixture, the largest among them; the cap is kept in all."""
    phase_starts: tuple[float, ...] = (0.0, 0.8)
    """As in the designs."""
    block_sequences: int = 1024
    """As in the mixtures of the runs that will use it: weights become multiples of its inverse."""
    min_sequences: int = 16
    """Cells with fewer sequences join the tail."""
    max_epochs: float = 8.0
    """Most often that any component may be seen in any of the budgets; candidates are held there."""
    num_samples: int = 2_000
    """Mixtures drawn in each round."""
    num_rounds: int = 4
    caution: float = 1.0
    """Deviations that are added to a predicted loss before candidates are compared."""
    reach: float = 1.0
    """How far a candidate may lie from its nearest run, as a multiple of the median distance of runs from theirs."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_number(self, "sequence_length", "block_sequences", "min_sequences", "num_rounds", low=1)
        check_number(self, "num_samples", low=_LAID_OUT)
        check_number(self, "max_epochs", "reach", above=0)
        check_budgets(self)
        check_phase_starts(self)
        check_number(self, "caution", "seed", low=0)


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    predicted_loss: float
    """Held-out macro loss of a proxy run of the candidate, nats a token."""
    predicted_deviation: float
    """Its standard deviation, the noise of a run included."""
    proportional_predicted_loss: float
    """The same of the proportional mixture, laid out alike."""
    predicted_gain: float
    """Proportional minus candidate, nats a token: above 0 the candidate is better."""
    predicted_gain_deviation: float
    """Standard deviation of the gain, without the noise of runs."""
    largest_exposure: float
    """Epochs of the most repeated component under the largest budget."""
    capped: list[str]
    """Components held at max_epochs."""
    nearest_run: float
    """Distance to the nearest run, as a multiple of the median distance of runs from theirs; at most `reach`."""
    distance: float
    """Total variation distance from proportional, mean over phases: the share of the run that moves."""
    most_raised: dict[str, float]
    """The five cells whose share of the run grows most, in shares."""
    most_lowered: dict[str, float]
    """The five whose share falls most."""


@dataclass(frozen=True, eq=False)
class _LaidOut:
    mixture: Mixture
    shares: np.ndarray
    mean: float
    deviation: float
    objective: float
    nearest: float


@kind("mix/candidate", version=1)
def mixture_candidate(config: CandidateConfig, out: Out) -> CandidateResult:
    """Writes the candidate.

    Raises:
        StepFailed: the surrogate was made for another store, or for another number of phases.
        ConfigError: the proportional mixture cannot be kept within max_epochs.
    """
    index = read_index(config.tokens)
    surrogate, observed = read_surrogate(config.surrogate, index)
    if observed.shape[1] != len(config.phase_starts):
        raise StepFailed(
            f"candidate: {len(config.phase_starts)} phases, but the runs of {config.surrogate} have {observed.shape[1]}"
        )
    layout = Layout(
        sequence_length=config.sequence_length,
        budgets_tokens=tuple(config.budgets_tokens),
        phase_starts=tuple(config.phase_starts),
        block_sequences=config.block_sequences,
        min_sequences=config.min_sequences,
        max_epochs=config.max_epochs,
        over_cap="water_fill",
    )
    proportional = np.stack([phase_weights(Proportional(), index)] * len(config.phase_starts))
    region = _Region(surrogate.features)
    baseline = _judged(proportional, layout, index, surrogate, region, config.caution)
    best = _search(config, layout, index, surrogate, region, proportional, observed, out)
    chosen = best[0]
    cells = [cell.name for cell in index.cells]
    pair = mixture_features(np.stack([baseline.shares, chosen.shares]), cells)
    gain, gain_deviation = surrogate.difference(*pair)
    write_weights(out.file(WEIGHTS_FILE), cell_weights(index, layout.phase_starts, chosen.shares))
    page = {
        "cells": cells,
        "predicted_gain": gain,
        "predicted_gain_deviation": gain_deviation,
        "proportional": baseline.shares.tolist(),
        "candidates": [
            {"predicted_loss": each.mean, "deviation": each.deviation, "shares": each.shares.tolist()}
            for each in best[:_WRITTEN]
        ],
    }
    write_json(out.file("candidates.json"), page)
    lengths = np.diff([*layout.phase_starts, 1.0])
    moved = lengths @ (chosen.shares - baseline.shares)
    order = np.argsort(moved, kind="stable").tolist()
    largest = layout.budgets_tokens.index(max(layout.budgets_tokens))
    return CandidateResult(
        predicted_loss=chosen.mean,
        predicted_deviation=chosen.deviation,
        proportional_predicted_loss=baseline.mean,
        predicted_gain=gain,
        predicted_gain_deviation=gain_deviation,
        largest_exposure=max(each.exposures[largest] for each in chosen.mixture.components),
        nearest_run=chosen.nearest,
        capped=list(chosen.mixture.capped),
        distance=float(np.abs(chosen.shares - baseline.shares).sum() / 2 / len(chosen.shares)),
        most_raised={cells[i]: float(moved[i]) for i in order[::-1][:5] if moved[i] > 0},
        most_lowered={cells[i]: float(moved[i]) for i in order[:5] if moved[i] < 0},
    )


def _search(
    config: CandidateConfig,
    layout: Layout,
    index: TokenIndex,
    surrogate: Fitted,
    region: "_Region",
    proportional: np.ndarray,
    observed: np.ndarray,
    out: Out,
) -> list[_LaidOut]:
    """Candidates within reach, laid out, the best first; the proportional mixture and the runs' own are among them."""
    random = np.random.default_rng(config.seed)
    cells = [cell.name for cell in index.cells]
    centers, concentrations = [proportional, *observed], _WIDE
    found = [_judged(each, layout, index, surrogate, region, config.caution) for each in centers]
    for number in range(config.num_rounds):
        out.progress(f"round {number + 1} of {config.num_rounds}", done=number, total=config.num_rounds)
        drawn = np.stack(
            [
                sample_mixture(random, centers[i % len(centers)], concentrations, linked=i % 2 == 0)
                for i in range(config.num_samples)
            ]
        )
        features = mixture_features(drawn, cells)
        mean, deviation = surrogate.predict(features)
        objective = np.where(region.nearest(features) <= config.reach, mean + config.caution * deviation, np.inf)
        promising = np.argsort(objective, kind="stable")[:_LAID_OUT]
        laid_out = [_judged(drawn[i], layout, index, surrogate, region, config.caution) for i in promising.tolist()]
        found += [each for each in laid_out if each.nearest <= config.reach]
        found.sort(key=lambda each: each.objective)
        centers, concentrations = [each.shares for each in found[:_LAID_OUT]], _NARROW
    return found


def _judged(
    weights: np.ndarray, layout: Layout, index: TokenIndex, surrogate: Fitted, region: "_Region", caution: float
) -> _LaidOut:
    mixture = lay_out(layout, index, weights)
    shares = cell_shares(mixture, index)
    features = mixture_features(shares[None], [cell.name for cell in index.cells])
    mean, deviation = (float(each[0]) for each in surrogate.predict(features))
    return _LaidOut(mixture, shares, mean, deviation, mean + caution * deviation, float(region.nearest(features)[0]))


class _Region:
    """Where the runs are.

    Args:
        runs: float64[N, D], their features.
    """

    def __init__(self, runs: np.ndarray) -> None:
        self._runs = runs
        apart = _distances(runs, runs)
        np.fill_diagonal(apart, np.inf)
        self._unit = float(np.median(apart.min(axis=1)))

    def nearest(self, features: np.ndarray) -> np.ndarray:
        """Returns each mixture's distance to the nearest run, in medians of the runs' own: float64[M]."""
        return _distances(features, self._runs).min(axis=1) / self._unit


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Euclidean, float64[M, N]."""
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None] - 2 * first @ second.T
    return np.sqrt(np.maximum(squares, 0))
