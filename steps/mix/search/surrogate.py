"""mix/surrogate: what proxy runs say of mixtures: held-out loss as a function of the mixture, with its uncertainty.

    surrogate.json    the runs (shares of cells, loss, prediction by a fit that had not seen the run), the fit kept

The runs must differ in their mixture alone. Each kernel (steps/mix/search/regression.py) predicts every run from fits
without it; the one with the smaller errors is kept, and its deviations are stretched to what these errors were. Whether
it knows anything is said by `rmse` beside `rmse_of_mean`, which is what predicting the mean of the other runs gives.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from marin_exec import InputPath, Out, StepFailed, kind
from steps.config_checks import check_number, check_sources
from steps.files import read_bytes, write_json
from steps.mix.mixture import read_mixture
from steps.mix.search.features import cell_shares, mixture_features
from steps.mix.search.regression import KERNELS, Fitted, HeldOut, coverage, cross_fit, fit
from steps.quality.labels import spearman
from steps.tokenize.store import TokenIndex, read_index

SURROGATE_FILE = "surrogate.json"
FORMAT = "mixture-surrogate/1"
_FEWEST_RUNS = 6


@dataclass(frozen=True, kw_only=True)
class ProxyRun:
    """A small run and the mixture that it saw."""

    name: str
    mixture: InputPath
    """Output of mix/weights."""
    run: InputPath
    """Output of train/language_model on it."""


@dataclass(frozen=True, kw_only=True)
class SurrogateConfig:
    tokens: InputPath
    """Token store of the training cells (tokenize/cache)."""
    runs: tuple[ProxyRun, ...]
    """At least 6, which differ in their mixture alone."""
    num_folds: int = 8
    """Of the cross-fitting; at most as many as runs."""
    seed: int = 0
    """Of the choice of folds."""

    def __post_init__(self) -> None:
        check_sources(self, "runs")
        check_number(self, "num_folds", low=2)
        check_number(self, "seed", low=0)


@dataclass(frozen=True, kw_only=True)
class SurrogateResult:
    runs: int
    features: int
    kernel: str
    """The one kept: "matern" or "linear"."""
    rmse: float
    """Of held-out predictions by the kernel kept, nats a token."""
    rmse_by_kernel: dict[str, float]
    rmse_of_mean: float
    """Of predicting each run by the mean of the runs in other folds: what a surrogate must beat."""
    spearman: float
    """Of held-out predictions with losses: whether it ranks mixtures that it has not seen."""
    coverage_95: float
    """Share of the runs within the 95 % interval of their held-out prediction, with deviations as fitted."""
    coverage_95_calibrated: float
    """The same with deviations stretched to the errors of the other folds."""
    stretch: float
    """Factor on deviations that the kept fit has."""
    best_run: str
    """With the lowest loss; luck is in it."""
    lowest_loss: float
    highest_loss: float


@kind("mix/surrogate", version=1)
def mixture_surrogate(config: SurrogateConfig, out: Out) -> SurrogateResult:
    """Fits the surrogate and writes surrogate.json.

    Raises:
        StepFailed: too few runs, runs that differ in more than the mixture, a mixture for another store, or losses that
            are all equal.
    """
    index = read_index(config.tokens)
    shares, losses = _observed(config, index)
    cells = [cell.name for cell in index.cells]
    features = mixture_features(shares, cells)
    folds = np.random.default_rng(config.seed).permutation(len(losses)) % min(config.num_folds, len(losses))
    held_out = {}
    for done, kernel in enumerate(KERNELS):
        out.progress(f"predicting held-out runs, kernel {kernel}", done=done, total=len(KERNELS))
        held_out[kernel] = cross_fit(features, losses, kernel, folds)
    errors = {kernel: _rmse(losses, found.mean) for kernel, found in held_out.items()}
    kernel = min(KERNELS, key=lambda name: errors[name])
    kept, found = fit(features, losses, kernel), held_out[kernel]
    stretch = float(np.sqrt(np.mean(((losses - found.mean) / found.deviation) ** 2)))
    names = [run.name for run in config.runs]
    write_json(out.file(SURROGATE_FILE), _page(index, cells, names, shares, losses, found, kept, stretch))
    means = np.array([losses[folds != fold].mean() for fold in folds])
    return SurrogateResult(
        runs=len(losses),
        features=features.shape[1],
        kernel=kernel,
        rmse=errors[kernel],
        rmse_by_kernel=errors,
        rmse_of_mean=_rmse(losses, means),
        spearman=spearman(found.mean, losses),
        coverage_95=coverage(losses, found.mean, found.deviation),
        coverage_95_calibrated=coverage(losses, found.mean, found.stretched),
        stretch=stretch,
        best_run=names[int(losses.argmin())],
        lowest_loss=float(losses.min()),
        highest_loss=float(losses.max()),
    )


def _observed(config: SurrogateConfig, index: TokenIndex) -> tuple[np.ndarray, np.ndarray]:
    """Shares float64[N, P, C] and final macro losses float64[N] of the runs."""
    if len(config.runs) < _FEWEST_RUNS:
        raise StepFailed(f"surrogate: {len(config.runs)} runs; at least {_FEWEST_RUNS} are needed to learn from")
    shares, losses, first = [], [], None
    for proxy in config.runs:
        mixture = read_mixture(proxy.mixture)
        if mixture.token_store != index.fingerprint:
            raise StepFailed(
                f"surrogate: the mixture of {proxy.name} was made for the token store {mixture.token_store[:16]}, not for "
                f"{index.fingerprint[:16]}"
            )
        described, loss = read_run(proxy.run)
        shape = {**described, "mixture": (mixture.phase_starts, mixture.block_sequences, mixture.sequence_length)}
        first = first or shape
        if differing := sorted(name for name in first | shape if first.get(name) != shape.get(name)):
            raise StepFailed(
                f"surrogate: {proxy.name} differs from {config.runs[0].name} in {', '.join(differing)}; only the weights of "
                f"the mixture may differ"
            )
        shares.append(cell_shares(mixture, index))
        losses.append(loss)
    if len(set(losses)) == 1:
        raise StepFailed(
            f"surrogate: all {len(losses)} runs have the loss {losses[0]}; nothing can be learnt from them"
        )
    return np.stack(shares), np.array(losses)


def read_run(path: str) -> tuple[dict[str, Any], float]:
    """Returns what run.json says of a run of train/language_model, and its final held-out macro loss, nats a token."""
    described = json.loads(read_bytes(f"{path}/run.json"))
    return described, json.loads(read_bytes(f"{path}/evals.jsonl").splitlines()[-1])["macro_loss"]


def read_surrogate(path: str, index: TokenIndex) -> tuple[Fitted, np.ndarray]:
    """Returns the fit in the output directory `path` of mix/surrogate, and the shares of its runs, float64[N, P, C].

    Raises:
        StepFailed: there is none, it is of another format, or it was made for another store.
    """
    where = f"{path.rstrip('/')}/{SURROGATE_FILE}"
    try:
        body = json.loads(read_bytes(where))
    except FileNotFoundError as error:
        raise StepFailed(f"{where}: not there; the output of a mix/surrogate step is needed") from error
    if (found := body.get("format")) != FORMAT:
        raise StepFailed(f"{where}: format {found!r}; this code reads {FORMAT!r}. Run mix/surrogate again")
    if body["token_store"] != index.fingerprint:
        raise StepFailed(
            f"{where}: made for the token store {body['token_store'][:16]}, not for {index.fingerprint[:16]}; what it "
            f"learnt says nothing about its cells"
        )
    shares = np.array([run["shares"] for run in body["runs"]])
    losses = np.array([run["loss"] for run in body["runs"]])
    features = mixture_features(shares, body["cells"])
    return Fitted(features, losses, body["kernel"], np.array(body["theta"]), body["stretch"]), shares


def _page(
    index: TokenIndex,
    cells: list[str],
    names: list[str],
    shares: np.ndarray,
    losses: np.ndarray,
    found: HeldOut,
    kept: Fitted,
    stretch: float,
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "token_store": index.fingerprint,
        "cells": cells,
        "kernel": kept.kernel,
        "theta": kept.theta.tolist(),
        "stretch": stretch,
        "runs": [
            {
                "name": name,
                "loss": loss,
                "held_out_prediction": mean,
                "held_out_deviation": deviation,
                "shares": table,
            }
            for name, loss, mean, deviation, table in zip(
                names, losses.tolist(), found.mean.tolist(), found.stretched.tolist(), shares.tolist(), strict=True
            )
        ],
    }


def _rmse(losses: np.ndarray, predictions: np.ndarray) -> float:
    return float(np.sqrt(np.mean((losses - predictions) ** 2)))
