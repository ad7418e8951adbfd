"""The model behind joint_smooth_v1: all rungs and all shares of their runs in one Gaussian process, given an asymptote E.

    ln(loss - E) = b0 + b1 ln g + b2 g + b3 x + common(g) + x tilt(g) + own_rung(g) + noise

with g the share of the run done and x = ln C of the whole run, less its mean over the rungs. `common` is what the straight
parts miss of the course that all rungs share, `tilt` how the exponent changes along it (it grows as the learning rate
falls), `own_rung` how a rung lies off the law: seed, geometry, batch. A new run is a new draw of `own_rung`. The noise
of an evaluation has its own deviation in nats (`steps.forecast.noise`), so it is divided by loss - E here.

E and the scales of the three smooth parts are not fitted but summed over: a fixed grid of values, each weighted by its
prior times the likelihood of the rungs' losses. Given these the posterior of every loss is a shifted log-normal, so the
whole posterior is a mixture of them; nothing is sampled.

Legend: N observed losses, M marks of the target, A asymptotes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LAW_MEANS = np.array([0.0, 0.0, 0.0, -0.08])
LAW_DEVIATIONS = np.array([3.0, 1.0, 2.0, 0.05])
"""Normal prior of b0 to b3: wide, but for the exponent -b3, which published laws of loss in compute put at 0.05 to 0.15."""
COMMON_SCALES = (0.03, 0.1, 0.3)
TILT_SCALES = (0.002, 0.005, 0.01)
RUNG_SCALES = (0.001, 0.002, 0.004, 0.008, 0.016)
"""Deviations of the three smooth parts, in units of ln(loss - E), all combinations equally likely beforehand."""
COMMON_LENGTH, TILT_LENGTH, RUNG_LENGTH = 0.7, 1.5, 0.7
"""Over how much of ln g they vary (squared-exponential kernels)."""
ASYMPTOTE_NODES = 25
ASYMPTOTE_REACH = 3.0
"""The grid of E: so many values, evenly over so many deviations to either side of the prior's mean."""
ASYMPTOTE_MARGIN = 0.05
"""Nats a token that E stays below the lowest observed loss."""


@dataclass(frozen=True)
class Observed:
    """What was measured: f64[N] each, rungs as i64[N]."""

    progress_N: np.ndarray
    log_flops_N: np.ndarray
    """ln of the FLOPs of the whole run, in one convention."""
    losses_N: np.ndarray
    noise_N: np.ndarray
    """Deviation of each evaluation, nats a token."""
    rung_N: np.ndarray
    """Which rung each is of."""


@dataclass(frozen=True)
class Wanted:
    """What is asked for: a run, at M shares of it."""

    progress_M: np.ndarray
    log_flops: float
    rung: int | None
    """One of the observed rungs, or None for a run that is none of them."""


@dataclass(frozen=True)
class Components:
    """A mixture over K values of E and the scales, of shifted log-normals: loss = E + exp(normal)."""

    log_weight_K: np.ndarray
    """ln of prior times likelihood, not normalised; comparable over conventions."""
    asymptote_K: np.ndarray
    rung_scale_K: np.ndarray
    mean_KM: np.ndarray
    """Of ln(loss - E)."""
    variance_KM: np.ndarray
    """Of the same, without the noise of an evaluation."""


def posterior(
    observed: Observed,
    wanted: Wanted,
    asymptote_mean: float,
    asymptote_deviation: float,
    least_rung_scale: float = 0.0,
) -> Components:
    """Returns the mixture for a run, given all observed losses.

    Args:
        observed: the rungs' evaluations.
        wanted: the run and marks that are asked for.
        asymptote_mean: of E's normal prior, nats a token.
        asymptote_deviation: of the same.
        least_rung_scale: scales of `own_rung` are raised to at least this.
    """
    rung_scales = sorted({max(scale, least_rung_scale) for scale in RUNG_SCALES})
    reach = ASYMPTOTE_REACH * asymptote_deviation
    asymptotes = np.linspace(asymptote_mean - reach, asymptote_mean + reach, ASYMPTOTE_NODES)
    asymptote_A = asymptotes[asymptotes < observed.losses_N.min() - ASYMPTOTE_MARGIN]
    gap_AN = observed.losses_N - asymptote_A[:, None]
    prior_A = -0.5 * ((asymptote_A - asymptote_mean) / asymptote_deviation) ** 2
    noise_ANN = _diagonal((observed.noise_N / gap_AN) ** 2)
    # Density of the loss itself: that of ln(loss - E), over loss - E.
    jacobian_A = -np.log(gap_AN).sum(axis=1)
    covariances = _Covariances(observed, wanted)
    parts = []
    for scales in itertools.product(COMMON_SCALES, TILT_SCALES, rung_scales):
        observed_NN, cross_NM, wanted_M = covariances(*scales)
        likelihood_A, mean_AM, variance_AM = _conditioned(
            np.log(gap_AN) - covariances.mean_N, observed_NN + noise_ANN, cross_NM, wanted_M
        )
        parts.append((prior_A + jacobian_A + likelihood_A, asymptote_A, np.full_like(asymptote_A, scales[2]),
                      covariances.mean_M + mean_AM, variance_AM))  # fmt: skip
    return Components(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _conditioned(
    residual_AN: np.ndarray, covariance_ANN: np.ndarray, cross_NM: np.ndarray, wanted_M: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns ln likelihood f64[A] (up to a constant), and conditional mean and variance f64[A, M]."""
    num_asymptotes = len(residual_AN)
    factor_ANN = np.linalg.cholesky(covariance_ANN)
    cross_ANM = np.broadcast_to(cross_NM, (num_asymptotes, *cross_NM.shape))
    solved = np.linalg.solve(factor_ANN, np.concatenate([residual_AN[:, :, None], cross_ANM], axis=2))
    white_AN, white_ANM = solved[:, :, 0], solved[:, :, 1:]
    log_determinant_A = np.log(np.diagonal(factor_ANN, axis1=1, axis2=2)).sum(axis=1)
    likelihood_A = -0.5 * (white_AN**2).sum(axis=1) - log_determinant_A
    mean_AM = np.einsum("an,anm->am", white_AN, white_ANM)
    return likelihood_A, mean_AM, wanted_M - (white_ANM**2).sum(axis=1)


class _Covariances:
    """Prior means and covariances of ln(loss - E) at what was observed and at what is wanted."""

    def __init__(self, observed: Observed, wanted: Wanted):
        centre = np.mean([observed.log_flops_N[observed.rung_N == rung][0] for rung in np.unique(observed.rung_N)])
        g_N, g_M = observed.progress_N, wanted.progress_M
        x_N, x_M = observed.log_flops_N - centre, np.full(len(g_M), wanted.log_flops - centre)
        law_N4, law_M4 = _law(g_N, x_N), _law(g_M, x_M)
        self.mean_N, self.mean_M = law_N4 @ LAW_MEANS, law_M4 @ LAW_MEANS
        rung_M = np.full(len(g_M), -1 if wanted.rung is None else wanted.rung)
        places = {"N": (g_N, x_N, law_N4, observed.rung_N), "M": (g_M, x_M, law_M4, rung_M)}
        self._parts = {pair: _parts(places[pair[0]], places[pair[1]]) for pair in ("NN", "NM", "MM")}

    def __call__(self, common: float, tilt: float, rung: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns f64[N, N], f64[N, M] and the variances f64[M]."""
        scales = np.array([1.0, common**2, tilt**2, rung**2])
        whole = {pair: np.tensordot(scales, parts, 1) for pair, parts in self._parts.items()}
        return whole["NN"], whole["NM"], np.diagonal(whole["MM"])


def _law(progress: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(progress), np.log(progress), progress, x], axis=1)


def _parts(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the covariances of law, common course, tilt and own rung between two sets of places, at unit scales."""
    (g_a, x_a, law_a, rung_a), (g_b, x_b, law_b, rung_b) = a, b
    same = rung_a[:, None] == rung_b
    return np.stack(
        [
            (law_a * LAW_DEVIATIONS**2) @ law_b.T,
            _kernel(g_a, g_b, COMMON_LENGTH),
            np.outer(x_a, x_b) * _kernel(g_a, g_b, TILT_LENGTH),
            # Half of a rung's deviation is the same all along its run.
            same * (0.5 + 0.5 * _kernel(g_a, g_b, RUNG_LENGTH)),
        ]
    )


def _kernel(g_a: np.ndarray, g_b: np.ndarray, length: float) -> np.ndarray:
    return np.exp(-0.5 * ((np.log(g_a)[:, None] - np.log(g_b)) / length) ** 2)


def _diagonal(values_AN: np.ndarray) -> np.ndarray:
    return values_AN[:, :, None] * np.eye(values_AN.shape[1])
