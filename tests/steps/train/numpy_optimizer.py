"""The three optimiser groups in NumPy, float64, from their definitions: MuonH, AdamH in its closed form, Adam with decay.

Muon: Jordan et al., https://kellerjordan.github.io/posts/muon/. Hyperball steps: the hero run's description (issue 8435 of
marin-community/marin): w' = w - rate |w| u / |u|, brought back to |w|. Adam: Kingma and Ba, algorithm 1.
"""

from collections.abc import Iterable

import numpy as np

SIMPLE = [(3.4445, -4.7750, 2.0315)]
QUINTIC = [
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
]


def orthogonalised(matrix: np.ndarray, polynomials: list, iterations: int) -> np.ndarray:
    """Singular values through the polynomials a s + b s^3 + c s^5, by way of the decomposition and not of products."""
    u, s, vt = np.linalg.svd(matrix / (np.linalg.norm(matrix) + 1e-8), full_matrices=False)
    for i in range(iterations):
        a, b, c = polynomials[i % len(polynomials)]
        s = a * s + b * s**3 + c * s**5
    return (u * s) @ vt


def on_sphere(weight: np.ndarray, direction: np.ndarray, rate: float) -> np.ndarray:
    """One hyperball step, its new norm in closed form: |w|^2 - 2 s <w, u> + s^2 |u|^2 with s = rate |w| / |u|."""
    norm = np.linalg.norm(weight)
    s = rate * norm / max(np.linalg.norm(direction), 1e-10)
    squared = norm**2 - 2 * s * (weight * direction).sum() + s**2 * (direction**2).sum()
    return (weight - s * direction) * norm / np.sqrt(squared)


def muon_h(weight, gradients: Iterable, rates, *, momentum, polynomials, iterations, norm_over) -> np.ndarray:
    """All updates of one stack [..., A, B]."""
    weight, buffer = weight.astype(np.float64), np.zeros(weight.shape)
    for gradient, rate in zip(gradients, rates, strict=True):
        buffer = momentum * buffer + gradient
        direction = momentum * buffer + gradient
        moves = np.empty_like(weight)
        for index in np.ndindex(weight.shape[:-2]):
            moves[index] = orthogonalised(direction[index], polynomials, iterations)
        whole = np.ndindex(weight.shape[:-2] if norm_over == "matrix" else weight.shape[:1])
        for index in whole:
            weight[index] = on_sphere(weight[index], moves[index], rate)
    return weight


def adam_directions(gradients: Iterable, beta1: float, beta2: float, epsilon: float) -> list[np.ndarray]:
    mean = square = 0.0
    directions = []
    for t, gradient in enumerate(gradients, start=1):
        exact = gradient.astype(np.float64)
        mean = beta1 * mean + (1 - beta1) * exact
        square = beta2 * square + (1 - beta2) * exact**2
        directions.append(mean / (1 - beta1**t) / (np.sqrt(square / (1 - beta2**t)) + epsilon))
    return directions


def adam_h(weight, gradients, rates, *, beta1, beta2, epsilon) -> np.ndarray:
    weight = weight.astype(np.float64)
    for direction, rate in zip(adam_directions(gradients, beta1, beta2, epsilon), rates, strict=True):
        weight = on_sphere(weight, direction, rate)
    return weight


def adam(weight, gradients, rates, decays, *, beta1, beta2, epsilon) -> np.ndarray:
    weight = weight.astype(np.float64)
    for direction, rate, decay in zip(adam_directions(gradients, beta1, beta2, epsilon), rates, decays, strict=True):
        weight = weight - rate * (direction + decay * weight)
    return weight
