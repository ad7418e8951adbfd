"""Spherical k-means on unit vectors, with the same bits for any number of threads.

faiss with several threads gives other last bits than with one, and so other clusters (seen with 1,000 clusters of 60,000
vectors). So each training has one thread, and what can go side by side are trainings: restarts, and seeds.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np

from marin_exec.errors import ConfigError, StepFailed

_SEED_OF_NEXT_RESTART = 15_486_557
"""What faiss adds to the seed for each of its own restarts; so restarts here are the ones that it would make."""
_FAISS_SEEDS = 2**31
"""faiss takes seeds from 0 to one less."""
_ROWS_AT_ONCE = 8_192
"""Vectors whose similarities to all centroids are held at a time: 160 MB with 5,000 centroids."""


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
        num_threads: restarts that are worked on at a time.

    Raises:
        ConfigError: there are fewer distinct vectors than clusters.
        StepFailed: a vector or a centroid is not finite.
    """
    [centroids] = train_seeds(
        vectors, num_clusters, seeds=[seed], iterations=iterations, restarts=restarts, num_threads=num_threads
    )
    return centroids


def train_seeds(
    vectors: np.ndarray, num_clusters: int, *, seeds: Sequence[int], iterations: int, restarts: int, num_threads: int
) -> list[np.ndarray]:
    """Returns for each seed what `train_centroids` does, all restarts of all seeds side by side.

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

    def train(seed: int, restart: int) -> tuple[np.ndarray, float]:
        # Sorted rows would put near-equal ones side by side; the seeded order also decides faiss's initial centroids.
        shuffled = np.ascontiguousarray(distinct[np.random.default_rng(seed).permutation(len(distinct))])
        own_seed = (seed + restart * _SEED_OF_NEXT_RESTART) % _FAISS_SEEDS
        return _train_once(shuffled, num_clusters, own_seed, iterations)

    with ThreadPoolExecutor(num_threads) as threads:
        tasks = [[threads.submit(train, seed, restart) for restart in range(restarts)] for seed in seeds]
        trained = [[task.result() for task in each] for each in tasks]
    return [max(each, key=lambda pair: pair[1])[0] for each in trained]


def _train_once(vectors: np.ndarray, num_clusters: int, seed: int, iterations: int) -> tuple[np.ndarray, float]:
    """Returns unit-length centroids, and the sum of cosines to them at the last iteration."""
    faiss.omp_set_num_threads(1)  # of this thread
    kmeans = faiss.Kmeans(
        vectors.shape[1],
        num_clusters,
        niter=iterations,
        seed=seed,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),  # faiss would quietly train on a subsample otherwise
    )
    kmeans.train(vectors)
    centroids = np.asarray(kmeans.centroids, dtype=np.float32)
    if not np.isfinite(centroids).all():
        raise StepFailed(f"k-means with {num_clusters} clusters gave centroids that are not finite; try another seed")
    return centroids / np.linalg.norm(centroids, axis=1, keepdims=True), float(np.asarray(kmeans.obj)[-1])


def centered(vectors: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Returns the rows less `mean`, float32[d], scaled to unit length again, float32[n, d]."""
    shifted = vectors - mean
    return (shifted / np.maximum(np.linalg.norm(shifted, axis=1, keepdims=True), 1e-12)).astype(np.float32)


def assign(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Returns int32[n]: the nearest centroid of each vector by cosine; the lower number on a tie."""
    from threadpoolctl import threadpool_limits

    nearest = np.empty(len(vectors), dtype=np.int32)
    with threadpool_limits(limits=1):  # with more BLAS threads products are added up in another order
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            nearest[part] = np.argmax(vectors[part] @ centroids.T, axis=1)
    return nearest


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
