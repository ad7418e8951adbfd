"""What k-means and merging find on a sample, how good it is, and whether other seeds would find it too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steps.cluster.agreement import (
    SourceAgreement,
    Stability,
    best_matches,
    contingency,
    mean_over_pairs,
    normalised_mutual_information,
    purity,
)
from steps.cluster.kmeans import assign, cluster_sizes, train_seeds
from steps.cluster.merge import merge_clusters


@dataclass(frozen=True, kw_only=True)
class Division:
    """One seed's clusters and topics. K clusters, n sampled documents, d dimensions."""

    centroids: np.ndarray
    """float32[K, d]."""
    cluster_topics: np.ndarray
    """int16[K]."""
    clusters: np.ndarray
    """int32[n]."""
    sizes: np.ndarray
    """int64[K]."""

    @property
    def topics(self) -> np.ndarray:
        """int16[n]."""
        return self.cluster_topics[self.clusters]


def train_divisions(
    vectors: np.ndarray,
    *,
    num_clusters: int,
    num_topics: int,
    min_topic_fraction: float,
    seeds: Sequence[int],
    iterations: int,
    restarts: int,
    merge_restarts: int,
    num_threads: int,
) -> list[Division]:
    """Returns each seed's division of the sampled vectors, float32[n, d], unit length.

    Raises:
        ConfigError: there are fewer distinct vectors than clusters, or no such topics were found.
        StepFailed: a vector is not finite, or a cluster is empty.
    """
    trained = train_seeds(
        vectors, num_clusters, seeds=seeds, iterations=iterations, restarts=restarts, num_threads=num_threads
    )
    divisions = []
    for seed, centroids in zip(seeds, trained, strict=True):
        clusters = assign(vectors, centroids)
        sizes = cluster_sizes(clusters, num_clusters)
        topics = merge_clusters(
            centroids, sizes, num_topics, min_fraction=min_topic_fraction, seed=seed, restarts=merge_restarts
        )
        divisions.append(Division(centroids=centroids, cluster_topics=topics, clusters=clusters, sizes=sizes))
    return divisions


def mean_cosine(vectors: np.ndarray, division: Division) -> float:
    """Returns the mean cosine between a sampled document and its centroid."""
    return float((vectors * division.centroids[division.clusters]).sum(axis=1).mean())


def source_agreement(division: Division, sources: np.ndarray) -> SourceAgreement:
    """Returns how far the division follows the sources, int[n]."""
    by_topic = contingency(division.topics, sources)
    return SourceAgreement(
        cluster_purity=round(purity(contingency(division.clusters, sources)), 5),
        topic_purity=round(purity(by_topic), 5),
        topic_information=round(normalised_mutual_information(by_topic), 5),
    )


def stability(divisions: Sequence[Division]) -> Stability | None:
    """Returns how far the divisions agree, or None if there is only one."""
    if len(divisions) < 2:
        return None
    cluster_rand, cluster_information = mean_over_pairs([each.clusters for each in divisions])
    topic_rand, topic_information = mean_over_pairs([each.topics for each in divisions])
    return Stability(
        seeds=len(divisions),
        cluster_rand=round(cluster_rand, 5),
        cluster_information=round(cluster_information, 5),
        topic_rand=round(topic_rand, 5),
        topic_information=round(topic_information, 5),
    )


def topic_stability(divisions: Sequence[Division]) -> list[float | None]:
    """Returns for each topic of the first division the mean Jaccard index with its best match in each of the others."""
    first, *others = divisions
    if not others:
        return [None] * (int(first.cluster_topics.max()) + 1)
    matches = [best_matches(contingency(first.topics, each.topics)) for each in others]
    return [round(float(each), 5) for each in np.mean(matches, axis=0)]
