"""Random mixtures around a given one.

Shapes: P phases, C cells. Weights are float64[P, C]; rows sum to 1.
"""

import numpy as np


def sample_mixture(
    random: np.random.Generator, center: np.ndarray, concentrations: tuple[float, float], linked: bool
) -> np.ndarray:
    """Returns a mixture drawn around another.

    Each phase is a Dirichlet draw with mean `center` and a concentration drawn between the two on a logarithmic scale: a
    cell with share w varies by sqrt(w * (1 - w) / (concentration + 1)). Phases that are linked share their draw: each later
    phase is drawn around the one before, as a run that changes course a little.

    Args:
        random: generator.
        center: float64[P, C].
        concentrations: lowest and highest.
        linked: whether later phases are drawn around earlier ones.

    Returns:
        float64[P, C]. A cell without weight in `center` has none.
    """
    low, high = np.log(concentrations)
    concentration = np.exp(random.uniform(low, high))
    phases = []
    for phase in center:
        mean = phase
        if linked and phases:
            mean = phases[-1] * np.divide(phase, center[0], out=np.zeros_like(phase), where=center[0] > 0)
            mean = mean / mean.sum()
        drawn = np.zeros_like(phase)
        with_weight = mean > 0
        drawn[with_weight] = random.dirichlet(mean[with_weight] * concentration)
        phases.append(drawn)
    return np.stack(phases)
