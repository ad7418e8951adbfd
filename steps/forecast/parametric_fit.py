"""The loss as a sum of what too few parameters and too few tokens cost: L(N, D) = E + A / N**alpha + B / D**beta.

Source of the form, the objective and the starting points: Hoffmann et al. 2022, "Training Compute-Optimal Large Language
Models", approach 3 and appendix D.3: Huber loss (delta 1e-3) of ln L, with E, A and B as exponentials. Besiroglu et al. 2024,
"Chinchilla Scaling: A replication attempt", showed that the optimiser there had stopped too early; here the same objective is
minimised by trust-region least squares, from the best of all starting points.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marin_exec import StepFailed
from steps.forecast.observations import Observation

HUBER_DELTA = 1e-3
MINIMUM_OBSERVATIONS = 6
"""One more than the law has parameters."""
MINIMUM_SPREAD = 0.05
"""Deviation of ln D about a straight line in ln N, below which A and B cannot be told apart."""
_STARTS = {
    "e": np.arange(-1.0, 1.01, 0.5),
    "a": np.arange(0.0, 25.1, 5.0),
    "b": np.arange(0.0, 25.1, 5.0),
    "alpha": np.arange(0.0, 2.01, 0.5),
    "beta": np.arange(0.0, 2.01, 0.5),
}
_BEST_STARTS = 4


@dataclass(frozen=True)
class ParametricLaw:
    """L(N, D) = asymptote + parameter_amplitude / N**parameter_exponent + token_amplitude / D**token_exponent."""

    asymptote: float
    """E, nats a token."""
    parameter_amplitude: float
    parameter_exponent: float
    token_amplitude: float
    token_exponent: float

    def __call__(self, parameters: float, tokens: float) -> float:
        """Returns the loss, nats a token."""
        return (
            self.asymptote
            + self.parameter_amplitude * float(parameters) ** -self.parameter_exponent
            + self.token_amplitude * float(tokens) ** -self.token_exponent
        )

    def optimum(self, flops: float) -> tuple[float, float]:
        """Returns (N, D) of least loss at a compute of 6 N D (equation 4 of Hoffmann et al.)."""
        alpha, beta = self.parameter_exponent, self.token_exponent
        ratio = (alpha * self.parameter_amplitude / (beta * self.token_amplitude)) ** (1 / (alpha + beta))
        parameters = ratio * (flops / 6) ** (beta / (alpha + beta))
        return parameters, flops / 6 / parameters


def fit_parametric(observations: Sequence[Observation]) -> ParametricLaw:
    """Returns the law of least Huber loss.

    Raises:
        StepFailed: too few observations, sizes and lengths that rise together, or losses that do not fall with both.
    """
    _check(observations)
    log_sizes_N2 = np.log([[each.parameters, each.tokens] for each in observations])
    log_losses_N = np.log([each.loss for each in observations])
    best = min(
        (_minimised(start, log_sizes_N2, log_losses_N) for start in _starts(log_sizes_N2, log_losses_N)),
        key=lambda found: found[0],
    )[1]
    law = _law(best)
    if not (law.parameter_exponent > 0 and law.token_exponent > 0):
        raise StepFailed(
            f"parametric law: exponents {law.parameter_exponent:.3g} of parameters and {law.token_exponent:.3g} of tokens; the "
            f"losses given do not fall with both. Check them, or add runs of other sizes and lengths"
        )
    return law


def without_each(observations: Sequence[Observation], law: ParametricLaw) -> list[ParametricLaw]:
    """Returns the law fitted without each observation in turn, from where the whole fit ended.

    Raises:
        StepFailed: without one of them the law cannot be fitted.
    """
    start = _vector(law)
    laws = []
    for left_out in range(len(observations)):
        kept = [each for index, each in enumerate(observations) if index != left_out]
        _check(kept)
        sizes = np.log([[each.parameters, each.tokens] for each in kept])
        laws.append(_law(_minimised(start, sizes, np.log([each.loss for each in kept]))[1]))
    return laws


def _check(observations: Sequence[Observation]) -> None:
    if len(observations) < MINIMUM_OBSERVATIONS:
        raise StepFailed(
            f"parametric law: {len(observations)} runs; it has five parameters, and {MINIMUM_OBSERVATIONS} runs or more are needed"
        )
    log_parameters, log_tokens = np.log([[each.parameters, each.tokens] for each in observations]).T
    line = (
        np.polyfit(log_parameters, log_tokens, 1) if np.ptp(log_parameters) > 0 else np.array([0.0, log_tokens.mean()])
    )
    spread = float(np.std(log_tokens - np.polyval(line, log_parameters)))
    if min(np.ptp(log_parameters), np.ptp(log_tokens), spread) < MINIMUM_SPREAD:
        raise StepFailed(
            f"parametric law: ln D deviates by {spread:.3g} from a line in ln N, {MINIMUM_SPREAD} or more are needed: runs whose "
            f"tokens rise with their parameters cannot tell what each of the two is worth. Add runs of one size and other lengths"
        )


def _predicted(vector: np.ndarray, log_sizes_N2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns ln L f64[N] and each term's share of L f64[N, 3], for (e, a, b, alpha, beta)."""
    e, a, b, alpha, beta = vector
    terms_N3 = np.stack(
        [np.full(len(log_sizes_N2), e), a - alpha * log_sizes_N2[:, 0], b - beta * log_sizes_N2[:, 1]], axis=1
    )
    highest_N1 = terms_N3.max(axis=1, keepdims=True)
    exponentials = np.exp(terms_N3 - highest_N1)
    total_N1 = exponentials.sum(axis=1, keepdims=True)
    return (highest_N1 + np.log(total_N1))[:, 0], exponentials / total_N1


def _minimised(start: np.ndarray, log_sizes_N2: np.ndarray, log_losses_N: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns (objective, vector) after minimising from a start.

    Sizes are centred meanwhile, so that an amplitude is not tied to its exponent.
    """
    from scipy.optimize import least_squares

    centre = log_sizes_N2.mean(axis=0)
    centred_N2 = log_sizes_N2 - centre
    shift = np.array([0.0, -start[3] * centre[0], -start[4] * centre[1], 0.0, 0.0])

    def residuals(vector: np.ndarray) -> np.ndarray:
        return _predicted(vector, centred_N2)[0] - log_losses_N

    def jacobian(vector: np.ndarray) -> np.ndarray:
        shares_N3 = _predicted(vector, centred_N2)[1]
        return np.concatenate([shares_N3, -shares_N3[:, 1:] * centred_N2], axis=1)

    found = least_squares(
        residuals, start + shift, jac=jacobian, loss="huber", f_scale=HUBER_DELTA, xtol=1e-12, ftol=1e-14, gtol=1e-12,
        max_nfev=2000,
    )  # fmt: skip
    e, a, b, alpha, beta = found.x
    return float(found.cost), np.array([e, a + alpha * centre[0], b + beta * centre[1], alpha, beta])


def _starts(log_sizes_N2: np.ndarray, log_losses_N: np.ndarray) -> np.ndarray:
    """Returns those of the published grid's points from which the objective is least already, f64[starts, 5]."""
    grid_G5 = np.array(list(itertools.product(*_STARTS.values())))
    e, a, b, alpha, beta = grid_G5.T[:, :, None]
    by_size_GN, by_tokens_GN = a - alpha * log_sizes_N2[:, 0], b - beta * log_sizes_N2[:, 1]
    error_GN = np.abs(np.logaddexp(np.logaddexp(by_size_GN, by_tokens_GN), e) - log_losses_N)
    huber_GN = np.where(error_GN <= HUBER_DELTA, error_GN**2 / 2, HUBER_DELTA * (error_GN - HUBER_DELTA / 2))
    return grid_G5[np.argsort(huber_GN.sum(axis=1), kind="stable")[:_BEST_STARTS]]


def _law(vector: np.ndarray) -> ParametricLaw:
    e, a, b, alpha, beta = (float(each) for each in vector)
    return ParametricLaw(math.exp(e), math.exp(a), alpha, math.exp(b), beta)


def _vector(law: ParametricLaw) -> np.ndarray:
    logs = np.log([law.asymptote, law.parameter_amplitude, law.token_amplitude])
    return np.array([*logs, law.parameter_exponent, law.token_exponent])
