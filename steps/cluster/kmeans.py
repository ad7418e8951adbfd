"""Spherical k-means on unit vectors, and the seeded sample it is trained on."""

from collections.abc import Mapping, Sequence

import faiss
import numpy as np

from marin_exec.errors import ConfigError, StepFailed
from steps.seeded_ranks import draw_rank


def largest_remainder_quotas(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Returns how many documents to draw from each source, in proportion to size, at least one from each.

    Args:
        sizes: documents by source.
        total: documents to draw in all; as many as there are if the sources hold fewer.

    Returns:
        Quotas by source that sum to `total`, or to the number of sources if that is larger.
    """
    available = sum(sizes.values())
    if total >= available:
        return dict(sizes)
    exact = {name: total * size / available for name, size in sizes.items()}
    quotas = {name: min(sizes[name], max(1, int(exact[name]))) for name in sizes}
    # What is still to give goes to the largest remainders; a floor of one may also have given too much already.
    by_remainder = sorted(sizes, key=lambda name: (quotas[name] - exact[name], name))
    for name in by_remainder * 2:
        if sum(quotas.values()) < total and quotas[name] < sizes[name]:
            quotas[name] += 1
    for name in reversed(by_remainder * 2):
        if sum(quotas.values()) > total and quotas[name] > 1:
            quotas[name] -= 1
    return quotas


def draw_rows(ids: Sequence[str], count: int, seed: int) -> np.ndarray:
    """Returns int64[count]: the rows drawn, a function of the seed and the ids, not of the rows' order."""
    order = sorted(range(len(ids)), key=lambda row: (draw_rank(seed, ids[row]), ids[row]))
    return np.array(sorted(order[:count]), dtype=np.int64)


def train_centroids(
    vectors: np.ndarray, num_clusters: int, *, seed: int, iterations: int, restarts: int, num_threads: int = 1
) -> np.ndarray:
    """Returns unit-length centroids, float32[num_clusters, d].

    Equal vectors are taken once: a thousand copies of one licence would otherwise claim centroids of their own.

    Args:
        vectors: float32[n, d], unit length.
        num_clusters: K.
        seed: of the initial centroids.
        iterations: Lloyd iterations of each restart.
        restarts: the one with the best objective is kept.
        num_threads: of faiss; one is the default so that sums are added up in one order.

    Raises:
        ConfigError: there are fewer distinct vectors than clusters.
        StepFailed: a vector or a centroid is not finite.
    """
    if not np.isfinite(vectors).all():
        raise StepFailed("a vector to cluster is not finite; run the embedding step again")
    distinct = np.unique(vectors, axis=0)
    if len(distinct) < num_clusters:
        raise ConfigError(
            f"num_clusters {num_clusters}: the sample holds {len(distinct)} distinct vectors; ask for fewer clusters"
        )
    # Sorted rows would put near-equal ones side by side; the seeded order also decides faiss's initial centroids.
    distinct = np.ascontiguousarray(distinct[np.random.default_rng(seed).permutation(len(distinct))])
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(num_threads)
    try:
        kmeans = faiss.Kmeans(
            distinct.shape[1],
            num_clusters,
            niter=iterations,
            nredo=restarts,
            seed=seed,
            spherical=True,
            min_points_per_centroid=1,
            max_points_per_centroid=len(distinct),  # faiss would quietly train on a subsample otherwise
        )
        kmeans.train(distinct)
    finally:
        faiss.omp_set_num_threads(before)
    centroids = np.asarray(kmeans.centroids, dtype=np.float32)
    if not np.isfinite(centroids).all():
        raise StepFailed(f"k-means with {num_clusters} clusters gave centroids that are not finite; try another seed")
    return centroids / np.linalg.norm(centroids, axis=1, keepdims=True)


def centered(vectors: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Returns the rows less `mean`, float32[d], scaled to unit length again, float32[n, d]."""
    shifted = vectors - mean
    return (shifted / np.maximum(np.linalg.norm(shifted, axis=1, keepdims=True), 1e-12)).astype(np.float32)


def assign(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Returns int32[n]: the nearest centroid of each vector by cosine; the lower number on a tie."""
    return np.argmax(vectors @ centroids.T, axis=1).astype(np.int32)


def cluster_sizes(assignment: np.ndarray, num_clusters: int) -> np.ndarray:
    """Returns int64[num_clusters]: how many of the sample are in each cluster.

    Raises:
        StepFailed: a cluster is empty.
    """
    sizes = np.bincount(assignment, minlength=num_clusters)
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        raise StepFailed(
            f"{empty.size} of {num_clusters} clusters are empty, the first is {empty[0]}; lower num_clusters or change seed"
        )
    return sizes
