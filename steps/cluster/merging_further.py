"""Which topics would become one next, if there were fewer: how near topics lie to each other, as the merging sees it.

The objective is that of steps/cluster/merge.py: the sum over topics of the length of the weighted sum of their centroids.
Merging two topics makes it smaller by what their directions differ; the pair that loses least comes first.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Merger:
    """Two groups of topics that become one. A group bears the number of its first topic."""

    first: int
    second: int
    """Above `first`; its number is gone from then on."""
    cosine: float
    """Between the two directions."""
    lost: float
    """Of the objective, as a share of what it was with all topics."""
    share: float
    """Of the sample that the two hold together."""


def merging_further(centroids: np.ndarray, weights: np.ndarray, topics: np.ndarray, most: int) -> list[Merger]:
    """Returns up to `most` mergers, each of the pair that loses least after those before it; ties go to the lowest numbers.

    Args:
        centroids: float[K, d], unit length.
        weights: float[K], documents of each cluster.
        topics: int[K], topic of each cluster, 0 to T - 1, none of them empty.
        most: at most T - 1 are possible.
    """
    count = int(topics.max()) + 1
    sums = np.zeros((count, centroids.shape[1]))
    np.add.at(sums, topics, centroids.astype(np.float64) * (weights / weights.sum())[:, None])
    mass = np.bincount(topics, weights=weights, minlength=count) / weights.sum()
    lengths = np.linalg.norm(sums, axis=1)
    whole = float(lengths.sum())
    products = sums @ sums.T
    losses = lengths[:, None] + lengths[None, :] - _joint(lengths[:, None], lengths[None, :], products)
    losses[np.tril_indices(count)] = np.inf
    found = []
    for _ in range(min(most, count - 1)):
        # Rounded: products of another order of additions must not choose another of two equal pairs.
        first, second = divmod(int(np.argmin(np.round(losses, 9))), count)
        cosine = products[first, second] / max(lengths[first] * lengths[second], 1e-12)
        found.append(
            Merger(
                first=first,
                second=second,
                cosine=round(float(cosine), 4),
                lost=round(float(losses[first, second]) / whole, 6),
                share=round(float(mass[first] + mass[second]), 5),
            )
        )
        sums[first] += sums[second]
        mass[first] += mass[second]
        lengths[first] = np.linalg.norm(sums[first])
        losses[second, :] = losses[:, second] = np.inf
        row = sums @ sums[first]
        products[first, :] = products[:, first] = row
        renewed = lengths[first] + lengths - _joint(lengths[first], lengths, row)
        for other, value in (
            (np.s_[first, first + 1 :], renewed[first + 1 :]),
            (np.s_[:first, first], renewed[:first]),
        ):
            losses[other] = np.where(np.isinf(losses[other]), np.inf, value)
    return found


def _joint(one: np.ndarray, other: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Lengths of sums of two vectors, by their lengths and product."""
    return np.sqrt(np.maximum(one**2 + other**2 + 2 * products, 0.0))
