import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from steps.mix.search.features import mixture_features
from steps.mix.search.regression import coverage, cross_fit, fit


def noisy_losses(count: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points in the unit square and a smooth function of them, about 5 with a deviation of 0.05."""
    random = np.random.default_rng(seed)
    points = random.random((count, 2))
    clean = 5 + 0.1 * np.sin(4 * points[:, 0]) * np.cos(2 * points[:, 1])
    return points, clean + random.normal(0, noise, count)


def posterior(kernel, features: np.ndarray, losses: np.ndarray, noise: float, at: np.ndarray):
    """Mean and covariance of a Gaussian process, written out: the oracle."""
    center, scale = losses.mean(), losses.std()
    inverse = np.linalg.inv(kernel(features, features) + noise * np.eye(len(losses)))
    mean = kernel(at, features) @ inverse @ ((losses - center) / scale) * scale + center
    covariance = (kernel(at, at) - kernel(at, features) @ inverse @ kernel(features, at)) * scale**2
    return mean, covariance


def matern(size: float, length: float):
    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        scaled = np.sqrt(5) * np.linalg.norm(a[:, None] - b[None], axis=2) / length
        return size * (1 + scaled + scaled**2 / 3) * np.exp(-scaled)

    return kernel


def linear(size: float):
    return lambda a, b: size * (a @ b.T + 1)  # ridge regression on features and a constant


@pytest.mark.parametrize("name", ["matern", "linear"])
def test_fit_predictions_are_those_of_the_formula(name):
    features, losses = noisy_losses(25, 0.01)
    at = np.random.default_rng(3).random((5, 2))
    found = fit(features, losses, name)
    size, *length, noise = np.exp(found.theta)
    kernel = matern(size, length[0]) if name == "matern" else linear(size)
    mean, covariance = posterior(kernel, features, losses, noise, at)
    predicted, deviation = found.predict(at)
    assert predicted == pytest.approx(mean, rel=1e-6)
    assert deviation**2 == pytest.approx(np.diag(covariance) + noise * losses.var(), rel=1e-4)
    gain, gain_deviation = found.difference(at[0], at[1])
    assert gain == pytest.approx(mean[0] - mean[1], rel=1e-5, abs=1e-9)
    expected = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert gain_deviation**2 == pytest.approx(expected, rel=1e-3)


def test_cross_fit_intervals_hold_on_held_out_points():
    rates = []
    for seed in range(3):
        features, losses = noisy_losses(32, 0.01, seed)
        found = cross_fit(features, losses, "matern", np.arange(32) % 4)
        rates.append(coverage(losses, found.mean, found.stretched))
        assert np.sqrt(np.mean((losses - found.mean) ** 2)) < 0.5 * losses.std()
    assert 0.85 <= np.mean(rates) <= 1.0


def test_cross_fit_stretches_deviations_that_were_too_small():
    """Losses with a jump are smooth to no kernel: deviations as fitted are too small, stretched ones are larger."""
    random = np.random.default_rng(5)
    features = random.random((40, 2))
    losses = 5 + (features[:, 0] > 0.5) * 0.2 + random.standard_t(2, 40) * 0.02
    found = cross_fit(features, losses, "matern", np.arange(40) % 4)
    errors = np.abs(losses - found.mean)
    assert np.mean(errors**2 / found.stretched**2) == pytest.approx(1, abs=0.35)
    assert coverage(losses, found.mean, found.stretched) >= coverage(losses, found.mean, found.deviation) - 0.05


def test_cross_fit_no_prediction_knows_its_own_loss():
    features, losses = noisy_losses(18, 0.01)
    folds = np.arange(18) % 3
    before = cross_fit(features, losses, "matern", folds)
    changed = losses.copy()
    changed[folds == 2] += 1.0
    after = cross_fit(features, changed, "matern", folds)
    assert np.array_equal(before.mean[folds == 2], after.mean[folds == 2])
    assert not np.array_equal(before.mean[folds != 2], after.mean[folds != 2])


def test_fit_same_bits_with_more_blas_threads():
    features, losses = noisy_losses(30, 0.01)
    found = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            found.append(fit(features, losses, "matern").theta.tobytes())
    assert found[0] == found[1]


def test_mixture_features_distances_are_hellinger_s():
    cells = ["c00q0", "c00q1", "c01q0", "c01q1"]
    first, second = np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([[0.25, 0.25, 0.5, 0.0]])
    a, b = mixture_features(np.stack([first, second]), cells)
    parts = [
        (first[0], second[0]),
        (np.array([0.3, 0.7]), np.array([0.5, 0.5])),  # topics
        (np.array([0.4, 0.6]), np.array([0.75, 0.25])),  # quality buckets
    ]
    expected = sum(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() for p, q in parts)
    assert ((a - b) ** 2).sum() == pytest.approx(expected)


def test_mixture_features_other_names_are_cells_alone():
    shares = np.array([[[0.2, 0.8], [0.5, 0.5]]])
    assert mixture_features(shares, ["code", "prose"])[0] == pytest.approx(np.sqrt([0.2, 0.8, 0.5, 0.5]))
