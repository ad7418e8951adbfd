"""Medians and intervals of a loss whose distribution is a mixture of shifted log-normals, monotone over the run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NEGLIGIBLE = 1e-9
"""Components of less weight are left out."""
_HALVINGS = 60


@dataclass(frozen=True)
class Mixture:
    """Losses at M marks, over K components: loss = E + exp(normal), each of its own weight."""

    weight_K: np.ndarray
    """Sum to 1."""
    asymptote_K: np.ndarray
    mean_KM: np.ndarray
    deviation_KM: np.ndarray

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """Returns f64[M, levels] in nats a token: each by bisection of the mixture's distribution function."""
        from scipy.special import ndtr

        kept = self.weight_K > NEGLIGIBLE
        weight_K = self.weight_K[kept] / self.weight_K[kept].sum()
        asymptote_K, mean_KM, deviation_KM = self.asymptote_K[kept], self.mean_KM[kept], self.deviation_KM[kept]
        level_Q = np.asarray(levels)
        highest = (asymptote_K[:, None] + np.exp(mean_KM + 10 * deviation_KM)).max(axis=0)
        low_MQ = np.full((mean_KM.shape[1], len(level_Q)), asymptote_K.min())
        high_MQ = np.repeat(highest[:, None], len(level_Q), axis=1)
        for _ in range(_HALVINGS):
            middle_MQ = (low_MQ + high_MQ) / 2
            gap_KMQ = np.maximum(middle_MQ - asymptote_K[:, None, None], np.finfo(float).tiny)
            below_MQ = np.tensordot(weight_K, ndtr((np.log(gap_KMQ) - mean_KM[..., None]) / deviation_KM[..., None]), 1)
            low_MQ = np.where(below_MQ < level_Q, middle_MQ, low_MQ)
            high_MQ = np.where(below_MQ < level_Q, high_MQ, middle_MQ)
        return (low_MQ + high_MQ) / 2

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and variance of the loss in each component, f64[K, M], nats a token."""
        log_normal_mean = np.exp(self.mean_KM + self.deviation_KM**2 / 2)
        variance = log_normal_mean**2 * np.expm1(self.deviation_KM**2)
        return self.asymptote_K[:, None] + log_normal_mean, variance


def falling(values_M: np.ndarray) -> np.ndarray:
    """Returns the closest sequence that never rises (isotonic regression).

    It keeps the order of sequences: where one lies below another everywhere, so does what becomes of it.
    """
    from scipy.optimize import isotonic_regression

    return isotonic_regression(values_M, increasing=False).x
