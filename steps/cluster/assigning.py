"""The second pass over all documents: each gets its cluster and topic, a shard at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from marin_exec import ShardOut
from steps.contract import read_documents
from steps.documents import join_dense, read_table, write_table
from steps.embed.vectors import read_array, vectors_of
from steps.seeded_ranks import choice_rank


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
    samples_per_topic: int
    """Documents of each topic that are offered as samples."""
    seed: int
    """Of the samples."""


def assign_shard(item: AssignShard, shard: ShardOut) -> list[dict[str, Any]]:
    """Writes the cluster and topic of a shard's documents; returns documents, term counts and samples of each topic.

    A sample is [rank, id]; those with the lowest ranks of all shards are the sample of all documents.
    """
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
    samples: list[list[tuple[int, str]]] = [[] for _ in range(item.num_topics)]
    for identifier, topic in zip(documents["id"].to_pylist(), topics.tolist(), strict=True):
        samples[topic].append((choice_rank(item.seed, identifier), identifier))
    return [
        {"documents": size, "terms": dict(terms), "samples": sorted(sample)[: item.samples_per_topic]}
        for size, terms, sample in zip(sizes, counts, samples, strict=True)
    ]
