"""Topics: spherical k-means on document embeddings, merged into a few named topics."""

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from marin_exec import InputPath, Out, ShardOut, kind, measured
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, join_dense, read_table, write_table
from steps.embed.vectors import read_array, read_source, vectors_of, write_array
from steps.files import write_bytes


@dataclass(frozen=True, kw_only=True)
class TopicsConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets, for the names of the topics."""
    embeddings: InputPath
    """Output of an "embed/documents" step on the same sources."""
    num_clusters: int = 64
    """K of the k-means."""
    num_topics: int = 10
    """Topics that the clusters are merged into."""
    min_topic_fraction: float = 0.02
    """Smallest share of the sample that a topic may have."""
    sample_documents: int = 100_000
    """Documents that the centroids are trained on, drawn in proportion to the sources' sizes."""
    iterations: int = 20
    """Of k-means."""
    restarts: int = 3
    """Of k-means; the best is kept."""
    center: bool = True
    """Take the sample's mean from every vector first: mean-pooled vectors share a large common part, which drowns topics."""
    seed: int = 0
    """Of the sample, the k-means and the merging."""
    num_terms: int = 12
    """Terms kept to describe a topic."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "num_clusters", "num_topics", "sample_documents", "iterations", "restarts", low=1)
        check_number(self, "num_terms", low=1)
        check_number(self, "num_topics", high=self.num_clusters)
        check_number(self, "min_topic_fraction", low=0, high=1 / self.num_topics)  # what all can have at once


@dataclass(frozen=True, kw_only=True)
class TopicsResult:
    documents: int
    """Documents assigned."""
    sample: int
    """Documents that the centroids were trained on."""
    num_clusters: int
    """K."""
    topic_documents: dict[str, int]
    """Documents by topic name, topics in order of their number."""
    largest_topic_fraction: float
    """Share of the largest topic; near 1 the topics say little."""
    mean_cosine: float
    """Between a sampled document and its centroid."""
    source_purity: float
    """Share of sampled documents that come from their cluster's most common source."""
    seconds: Annotated[float, measured]
    """Wall time."""


@dataclass(frozen=True, kw_only=True)
class AssignShard:
    """One shard of one source's embeddings."""

    documents: str
    """Documents data set of the source."""
    embeddings: str
    """Its embedding table."""
    shard: str
    """File name in both."""
    relative: str
    """Where the assignments go in the output."""
    model: str
    """Directory with mean.npy, centroids.npy and cluster_topics.npy."""
    num_topics: int


def assign_shard(item: AssignShard, shard: ShardOut) -> list[dict[str, Any]]:
    """Writes the cluster and topic of a shard's documents; returns documents and term counts for each topic."""
    from steps.cluster.kmeans import assign, centered
    from steps.cluster.names import count_terms

    documents = read_documents(item.documents, item.shard, columns=["id", "text"])
    where = f"{item.embeddings}/{item.shard}"
    embeddings = read_table(item.embeddings, item.shard)
    join_dense(documents, embeddings, where)  # for its check of the ids
    vectors = centered(vectors_of(embeddings, where), read_array(f"{item.model}/mean.npy"))
    clusters = assign(vectors, read_array(f"{item.model}/centroids.npy"))
    topics = read_array(f"{item.model}/cluster_topics.npy")[clusters]
    table = pa.table({"id": documents["id"], "cluster": pa.array(clusters), "topic": pa.array(topics)})
    write_table(shard.file(item.relative), table)
    counts = count_terms(documents["text"].to_pylist(), topics.tolist(), item.num_topics)
    sizes = np.bincount(topics, minlength=item.num_topics).tolist()
    return [{"documents": size, "terms": dict(terms)} for size, terms in zip(sizes, counts, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Trained:
    """What k-means and merging found on the sample. K clusters, T topics, d dimensions, n sampled documents."""

    centroids: np.ndarray
    """float32[K, d]."""
    cluster_topics: np.ndarray
    """int16[K]."""
    sizes: np.ndarray
    """int64[K]: sampled documents of each cluster."""
    mean_cosine: float
    source_purity: float


def _read_sample(config: TopicsConfig) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sampled vectors, float32[n, d], and the number of each one's source, int64[n]."""
    from steps.cluster.kmeans import draw_rows, largest_remainder_quotas

    tables = {source.name: read_source(f"{config.embeddings}/{source.name}") for source in config.documents}
    quotas = largest_remainder_quotas({name: len(ids) for name, (ids, _) in tables.items()}, config.sample_documents)
    chosen = {name: draw_rows(ids, quotas[name], config.seed) for name, (ids, _) in tables.items()}
    vectors = np.concatenate([tables[name][1][rows] for name, rows in chosen.items()])
    return vectors, np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen.values()])


def _train(config: TopicsConfig, vectors: np.ndarray, sources: np.ndarray) -> _Trained:
    from steps.cluster.kmeans import assign, cluster_sizes, train_centroids
    from steps.cluster.merge import merge_clusters

    centroids = train_centroids(
        vectors, config.num_clusters, seed=config.seed, iterations=config.iterations, restarts=config.restarts
    )
    clusters = assign(vectors, centroids)
    sizes = cluster_sizes(clusters, config.num_clusters)
    by_source = np.zeros((config.num_clusters, sources.max() + 1), dtype=np.int64)
    np.add.at(by_source, (clusters, sources), 1)
    return _Trained(
        centroids=centroids,
        cluster_topics=merge_clusters(
            centroids, sizes, config.num_topics, min_fraction=config.min_topic_fraction, seed=config.seed
        ),
        sizes=sizes,
        mean_cosine=round(float((vectors * centroids[clusters]).sum(axis=1).mean()), 5),
        source_purity=round(float(by_source.max(axis=1).sum() / len(vectors)), 5),
    )


def _topic_rows(
    config: TopicsConfig, trained: _Trained, counts: dict[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Returns one entry a topic for topics.json, from the counts that the shards brought back."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    from steps.cluster.names import name_topics, top_terms

    terms: list[Counter[str]] = [Counter() for _ in range(config.num_topics)]
    documents = {source.name: [0] * config.num_topics for source in config.documents}
    for key, topics in counts.items():
        for topic, each in enumerate(topics):
            terms[topic].update(each["terms"])
            documents[key.rpartition("/")[0]][topic] += each["documents"]
    sizes = [sum(each[topic] for each in documents.values()) for topic in range(config.num_topics)]
    best = top_terms(terms, sizes, config.num_terms, ENGLISH_STOP_WORDS)
    return [
        {
            "topic": topic,
            "name": name,
            "terms": best[topic],
            "documents": sizes[topic],
            "documents_by_source": {source: each[topic] for source, each in documents.items()},
            "clusters": np.flatnonzero(trained.cluster_topics == topic).tolist(),
        }
        for topic, name in enumerate(name_topics(best))
    ]


@kind("cluster/topics", version=1)
def topics(config: TopicsConfig, out: Out) -> TopicsResult:
    """Writes `<source>/part-NNNNN.parquet` (id, cluster int32, topic int16), topics.json and model/*.npy.

    Raises:
        ConfigError: there are too few documents for the clusters and topics.
        StepFailed: the embeddings belong to other documents, are not finite, or a cluster is empty.
    """
    from steps.cluster.kmeans import centered

    started = time.monotonic()
    vectors, sources = _read_sample(config)
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32) * np.float32(config.center)
    trained = _train(config, centered(vectors, mean), sources)
    write_array(out.file("model/mean.npy"), mean)
    write_array(out.file("model/centroids.npy"), trained.centroids)
    write_array(out.file("model/cluster_topics.npy"), trained.cluster_topics)
    out.progress(f"{config.num_clusters} clusters of {len(vectors)} documents, merged into {config.num_topics} topics")
    items = {
        f"{source.name}/{shard}": AssignShard(
            documents=source.path,
            embeddings=f"{config.embeddings}/{source.name}",
            shard=shard,
            relative=f"{source.name}/{shard}",
            model=f"{out.path}/model",
            num_topics=config.num_topics,
        )
        for source in config.documents
        for shard in document_shards(source.path)
    }
    rows = _topic_rows(config, trained, out.map_shards(assign_shard, items))
    value = {"cluster_sample_documents": trained.sizes.tolist(), "topics": rows}
    write_bytes(out.file("topics.json"), json.dumps(value, indent=1, ensure_ascii=False).encode())
    documents = sum(row["documents"] for row in rows)
    return TopicsResult(
        documents=documents,
        sample=len(vectors),
        num_clusters=config.num_clusters,
        topic_documents={row["name"]: row["documents"] for row in rows},
        largest_topic_fraction=round(max(row["documents"] for row in rows) / documents, 5),
        mean_cosine=trained.mean_cosine,
        source_purity=trained.source_purity,
        seconds=time.monotonic() - started,
    )
