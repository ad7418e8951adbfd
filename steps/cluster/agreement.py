"""How far two divisions of the same documents agree: adjusted Rand index, normalised mutual information, topic by topic.

All are functions of the table of how many documents are in both, so the numbers that groups have do not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Agreement of the sample's divisions by all seeds: means over pairs. 1 is equal, 0 is chance (of `rand`)."""

    seeds: int
    """Seeds compared, the step's own among them."""
    cluster_rand: float
    """Adjusted Rand index of the clusters."""
    cluster_information: float
    """Normalised mutual information of the clusters."""
    topic_rand: float
    """Adjusted Rand index of the topics."""
    topic_information: float
    """Normalised mutual information of the topics."""


@dataclass(frozen=True, kw_only=True)
class SourceAgreement:
    """How much clusters and topics follow the sources, on the sample."""

    cluster_purity: float
    """Share of documents that are of their cluster's most common source."""
    topic_purity: float
    """Share of documents that are of their topic's most common source."""
    topic_information: float
    """Normalised mutual information of topics and sources."""


def contingency(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns int64[A, B]: how many documents are in group a of the one division and in group b of the other.

    Args:
        one: int[n], numbers of groups from 0.
        other: int[n].
    """
    table = np.zeros((one.max() + 1, other.max() + 1), dtype=np.int64)
    np.add.at(table, (one, other), 1)
    return table


def adjusted_rand(table: np.ndarray) -> float:
    """Returns the adjusted Rand index (Hubert and Arabie, 1985): 1 if the divisions are equal, 0 on average by chance."""

    def pairs(counts: np.ndarray) -> float:
        return float((counts.astype(np.float64) * (counts - 1) / 2).sum())

    both, one, other = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    everything = pairs(np.array([table.sum()]))
    by_chance = one * other / everything if everything else 0.0
    at_most = (one + other) / 2
    return 1.0 if at_most == by_chance else (both - by_chance) / (at_most - by_chance)


def normalised_mutual_information(table: np.ndarray) -> float:
    """Returns mutual information over the mean of the two entropies, 0 to 1; 1 if both divisions are one group."""
    joint = table / table.sum()
    one, other = joint.sum(axis=1), joint.sum(axis=0)
    held = joint > 0
    information = float((joint[held] * np.log(joint[held] / np.outer(one, other)[held])).sum())
    entropy = sum(float(-(part[part > 0] * np.log(part[part > 0])).sum()) for part in (one, other)) / 2
    return information / entropy if entropy > 0 else 1.0


def purity(table: np.ndarray) -> float:
    """Returns the share of documents that are of the most common group of the other division within their own."""
    return float(table.max(axis=1).sum() / table.sum())


def best_matches(table: np.ndarray) -> np.ndarray:
    """Returns float64[A]: for each group of the one division its largest Jaccard index with a group of the other."""
    union = table.sum(axis=1, keepdims=True) + table.sum(axis=0, keepdims=True) - table
    return (table / np.maximum(union, 1)).max(axis=1)


def mean_over_pairs(divisions: Sequence[np.ndarray]) -> tuple[float, float]:
    """Returns the mean adjusted Rand index and the mean normalised mutual information over all pairs of divisions."""
    tables = [contingency(one, other) for place, one in enumerate(divisions) for other in divisions[place + 1 :]]
    rand = [adjusted_rand(table) for table in tables]
    information = [normalised_mutual_information(table) for table in tables]
    return float(np.mean(rand)), float(np.mean(information))
