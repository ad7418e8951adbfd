"""Many clusters into a few topics: weighted divisive spherical 2-means, then single moves while they help.

The objective is the sum over topics of the length of the weighted sum of their centroids: it is largest when every topic
points in one direction. A floor on a topic's share keeps topics from being crumbs, and stops at the number asked for.

Shapes: K clusters, T topics, d dimensions.
"""

import numpy as np

from marin_exec.errors import ConfigError

_HALVINGS = 10
_ITERATIONS = 20


def merge_clusters(
    centroids: np.ndarray, weights: np.ndarray, num_topics: int, *, min_fraction: float, seed: int, restarts: int = 1
) -> np.ndarray:
    """Returns int16[K]: the topic of each cluster, topics numbered by falling weight.

    Args:
        centroids: float[K, d], unit length.
        weights: float[K] above 0, e.g. documents of each cluster.
        num_topics: T, at most K.
        min_fraction: smallest share of the weight that a topic may have.
        seed: of the random halves.
        restarts: divisions made; the one with the largest objective is kept.

    Raises:
        ConfigError: no split into that many topics of that share was found.
    """
    points = centroids.astype(np.float64)
    share = weights / weights.sum()
    if not 1 <= num_topics <= len(points) or num_topics * min_fraction > 1:
        raise ConfigError(
            f"num_topics {num_topics}, min_fraction {min_fraction}: 1 to {len(points)} topics whose floors sum to at most 1 "
            f"are possible"
        )
    best, best_value, most_found = None, -1.0, 0
    for restart in range(restarts):
        rng = np.random.default_rng([seed, restart] if restart else seed)
        topics = np.zeros(len(points), dtype=np.int64)
        num_found = 1
        while num_found < num_topics and _split_widest(points, share, topics, num_found, min_fraction, rng):
            num_found += 1
        most_found = max(most_found, num_found)
        if num_found < num_topics:
            continue
        _move_while_better(points, share, topics, num_topics, min_fraction)
        value = sum(_length(points, share, np.flatnonzero(topics == topic)) for topic in range(num_topics))
        if value > best_value:
            best, best_value = topics, value
    if best is None:
        raise ConfigError(
            f"only {most_found} topics of at least {min_fraction:.1%} of the documents were found; lower num_topics or "
            f"min_fraction, or raise num_clusters"
        )
    mass = np.bincount(best, weights=share, minlength=num_topics)
    place = np.empty(num_topics, dtype=np.int64)
    place[np.lexsort((np.arange(num_topics), -mass))] = np.arange(num_topics)
    return place[best].astype(np.int16)


def _length(points: np.ndarray, share: np.ndarray, members: np.ndarray) -> float:
    return float(np.linalg.norm(share[members] @ points[members]))


def _split_widest(
    points: np.ndarray, share: np.ndarray, topics: np.ndarray, new: int, min_fraction: float, rng: np.random.Generator
) -> bool:
    """Gives one side of the widest topic that can be split the number `new`, in place; False if none can."""
    groups = [np.flatnonzero(topics == topic) for topic in range(new)]
    # What splitting can win is at most the group's weight less the length of its sum.
    spread = [share[group].sum() - _length(points, share, group) for group in groups]
    for topic in np.argsort(spread)[::-1]:
        side = _best_halves(points, share, groups[topic], min_fraction, rng)
        if side is not None:
            topics[groups[topic][side]] = new
            return True
    return False


def _best_halves(
    points: np.ndarray, share: np.ndarray, group: np.ndarray, min_fraction: float, rng: np.random.Generator
) -> np.ndarray | None:
    """Returns bool[len(group)], one side of the best split found, or None if none leaves both sides their floor."""
    if len(group) < 2:
        return None
    best, best_value = None, -1.0
    for _ in range(_HALVINGS):
        centres = points[rng.choice(group, size=2, replace=False)]
        side = np.zeros(len(group), dtype=bool)
        for _ in range(_ITERATIONS):
            previous, side = side, points[group] @ centres[1] > points[group] @ centres[0]
            if not side.any() or side.all() or np.array_equal(previous, side):
                break
            sums = [share[group[half]] @ points[group[half]] for half in (~side, side)]
            centres = np.stack([each / max(np.linalg.norm(each), 1e-12) for each in sums])
        masses = share[group[~side]].sum(), share[group[side]].sum()
        if min(masses) < min_fraction or not side.any() or side.all():
            continue
        value = _length(points, share, group[side]) + _length(points, share, group[~side])
        if value > best_value:
            best, best_value = side, value
    return best


def _move_while_better(
    points: np.ndarray, share: np.ndarray, topics: np.ndarray, num_topics: int, min_fraction: float
) -> None:
    """Moves single clusters to other topics, in place, until no move makes the objective larger."""
    weighted = points * share[:, None]
    sums = np.stack([weighted[topics == topic].sum(axis=0) for topic in range(num_topics)])
    mass = np.bincount(topics, weights=share, minlength=num_topics)
    moved = True
    while moved:
        moved = False
        for cluster in range(len(points)):
            here = topics[cluster]
            if mass[here] - share[cluster] < min_fraction or np.count_nonzero(topics == here) == 1:
                continue
            lengths = np.linalg.norm(sums, axis=1)
            gains = np.linalg.norm(sums + weighted[cluster], axis=1) - lengths
            gains += np.linalg.norm(sums[here] - weighted[cluster]) - lengths[here]
            gains[here] = 0.0
            there = int(np.argmax(gains))
            if gains[there] > 1e-12:  # rounding must not make two clusters change places for ever
                sums[here] -= weighted[cluster]
                sums[there] += weighted[cluster]
                mass[here] -= share[cluster]
                mass[there] += share[cluster]
                topics[cluster] = there
                moved = True
