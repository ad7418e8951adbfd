"""Gaussian processes from features of mixtures to a loss, and how well they predict mixtures that they have not seen.

Two kernels: `matern` (smooth, local) and `linear`, which is ridge regression with its uncertainty. Hyperparameters are
those of the highest marginal likelihood. BLAS runs on one thread, so that results do not depend on how many there are.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

KERNELS = ("matern", "linear")
NORMAL_95 = 1.959964
"""Half the width of a 95 % interval, in standard deviations."""
_STARTS = 2  # of the optimisation, besides the first


@dataclass(frozen=True, eq=False)
class Fitted:
    """A surrogate of N observed mixtures with D features."""

    features: np.ndarray
    """float64[N, D]."""
    losses: np.ndarray
    """float64[N]."""
    kernel: str
    theta: np.ndarray
    """float64[H]: logarithms of the hyperparameters, in scikit-learn's order."""
    stretch: float = 1.0
    """Factor on the deviations, so that they are as large as held-out errors were."""

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns what runs of M mixtures (float64[M, D]) would come to: mean and deviation, float64[M] each.

        The deviation is of a run's loss, its noise included.
        """
        with _one_thread():
            mean, deviation = self._model().predict(features, return_std=True)
        return mean, deviation * self.stretch

    def difference(self, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
        """Returns mean and deviation of loss(first) - loss(second), float64[D] each, without the noise of runs."""
        model = self._model()
        with _one_thread():
            mean, covariance = model.predict(np.stack([first, second]), return_cov=True)
        noise = 2 * _noise(model) * model._y_train_std**2
        variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1] - noise
        return float(mean[0] - mean[1]), float(np.sqrt(max(variance, 0.0)) * self.stretch)

    def _model(self) -> Any:
        model = _regressor(self.kernel, optimised=False)
        model.kernel.theta = self.theta
        with _one_thread():
            return model.fit(self.features, self.losses)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of N mixtures, each by a fit that has not seen it."""

    mean: np.ndarray
    deviation: np.ndarray
    """As the fit had it."""
    stretched: np.ndarray
    """With the factor that the other folds' errors call for."""


def fit(features: np.ndarray, losses: np.ndarray, kernel: str) -> Fitted:
    """Returns a surrogate with the hyperparameters that the data call for."""
    with _one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a hyperparameter lies at its bound: the bounds are meant
        model = _regressor(kernel, optimised=True).fit(features, losses)
    return Fitted(features, losses, kernel, np.array(model.kernel_.theta))


def cross_fit(features: np.ndarray, losses: np.ndarray, kernel: str, folds: np.ndarray) -> HeldOut:
    """Returns predictions of each mixture by a fit without its fold.

    Args:
        features: float64[N, D].
        losses: float64[N].
        kernel: one of KERNELS.
        folds: int64[N], at least two different numbers.
    """
    mean, deviation = np.empty(len(losses)), np.empty(len(losses))
    for fold in np.unique(folds):
        out = folds == fold
        mean[out], deviation[out] = fit(features[~out], losses[~out], kernel).predict(features[out])
    scores = ((losses - mean) / deviation) ** 2
    stretches = np.array([np.sqrt(scores[folds != fold].mean()) for fold in folds])
    return HeldOut(mean, deviation, deviation * stretches)


def coverage(losses: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> float:
    """Returns the share of losses that lie in their 95 % intervals."""
    return float(np.mean(np.abs(losses - mean) <= NORMAL_95 * deviation))


def _regressor(kernel: str, *, optimised: bool) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel

    size = ConstantKernel(1.0, (1e-3, 1e3))
    if kernel == "matern":
        shape = Matern(1.0, (0.05, 20.0), nu=2.5)
    else:
        shape = DotProduct(1.0, "fixed")
    return GaussianProcessRegressor(
        size * shape + WhiteKernel(0.1, (1e-4, 10.0)),
        optimizer="fmin_l_bfgs_b" if optimised else None,
        n_restarts_optimizer=_STARTS if optimised else 0,
        normalize_y=True,
        random_state=0,
    )


def _noise(model: Any) -> float:
    return float(model.kernel_.k2.noise_level)


def _one_thread() -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)
