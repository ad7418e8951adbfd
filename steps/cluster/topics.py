"""Topics: spherical k-means on document embeddings, merged into a few named topics.

Beside every document's cluster and topic stands what one needs to trust them: agreement with other seeds, purity by source,
an intruder test by the documents' words, and samples to be read.
"""

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from marin_exec import InputPath, Out, kind, measured, runtime
from steps.cluster.agreement import SourceAgreement, Stability
from steps.cluster.assigning import AssignShard, assign_shard
from steps.cluster.intruders import CHANCE, IntruderScore, intruder_score, word_similarities
from steps.cluster.topic_samples import Sample, read_samples, write_questions, write_samples
from steps.config_checks import check_number, check_sources
from steps.contract import check_same_shards, document_shards
from steps.documents import NamedInput
from steps.embed.vectors import write_array
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
    merge_restarts: int = 5
    """Divisions made when clusters are merged; the one whose topics are tightest is kept."""
    stability_seeds: int = 2
    """Further seeds that clusters and topics are made with on the sample, to see whether they come out the same. Each
    costs as much as the first; 0 for none."""
    samples_per_topic: int = 40
    """Documents of each topic in samples.json, which the intruder test draws from."""
    intruder_questions: int = 1_000
    """Questions of the intruder test."""
    exported_questions: int = 100
    """Questions written out for people or a model."""
    alarm_fraction: float = 0.5
    """A topic or cluster with a larger share of the documents is named in `alarms`."""
    num_threads: Annotated[int, runtime] = 1
    """K-means trainings (restarts, seeds) that are worked on at a time; each holds a copy of the sample."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "num_clusters", "num_topics", "sample_documents", "iterations", "restarts", low=1)
        check_number(self, "num_terms", "merge_restarts", "intruder_questions", "num_threads", low=1)
        check_number(self, "stability_seeds", "samples_per_topic", "exported_questions", "seed", low=0)
        check_number(self, "num_topics", high=self.num_clusters)
        check_number(self, "min_topic_fraction", low=0, high=1 / self.num_topics)  # what all can have at once
        check_number(self, "alarm_fraction", above=0, high=1)


@dataclass(frozen=True, kw_only=True)
class IntruderFigures:
    """How often the words of five documents tell which is of another topic. Topics are asked about by their size."""

    score: float
    """Share of questions in which the intruder was told."""
    standard_error: float
    chance: float
    """What guessing gives."""
    by_topic: dict[str, float]
    """The share for each topic, by its name."""


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
    largest_cluster_fraction: float
    """Share of the largest cluster, of the sample."""
    mean_cosine: float
    """Between a sampled document and its centroid."""
    source_purity: float
    """Share of sampled documents that come from their cluster's most common source."""
    sources: SourceAgreement
    stability: Stability | None
    """None with no further seeds."""
    topic_stability: dict[str, float]
    """By topic name: mean Jaccard index with the best match among the topics of each other seed; empty with none."""
    intruders: IntruderFigures | None
    """None where there are too few topics or samples to ask."""
    alarms: list[str]
    """Topics and clusters that hold more than `alarm_fraction`, in words."""
    seconds: Annotated[float, measured]
    """Wall time."""


def _topic_rows(
    config: TopicsConfig, cluster_topics: np.ndarray, counts: dict[str, list[dict[str, Any]]]
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
            "clusters": np.flatnonzero(cluster_topics == topic).tolist(),
        }
        for topic, name in enumerate(name_topics(best))
    ]


def _assign_all(config: TopicsConfig, out: Out) -> tuple[dict[str, AssignShard], dict[str, list[dict[str, Any]]]]:
    items = {
        f"{source.name}/{shard}": AssignShard(
            documents=source.path,
            embeddings=f"{config.embeddings}/{source.name}",
            shard=shard,
            relative=f"{source.name}/{shard}",
            model=f"{out.path}/model",
            num_topics=config.num_topics,
            samples_per_topic=config.samples_per_topic,
            seed=config.seed,
        )
        for source in config.documents
        for shard in document_shards(source.path)
    }
    return items, out.map_shards(assign_shard, items)


def _test_intruders(config: TopicsConfig, samples: list[Sample], sizes: list[int]) -> IntruderScore | None:
    return intruder_score(
        word_similarities([each.text for each in samples]),
        [each.topic for each in samples],
        sizes,
        questions=config.intruder_questions,
        seed=config.seed,
    )


def _intruder_figures(intruders: IntruderScore | None, names: list[str]) -> IntruderFigures | None:
    if intruders is None:
        return None
    return IntruderFigures(
        score=round(intruders.score, 5),
        standard_error=round(intruders.standard_error, 5),
        chance=CHANCE,
        by_topic={names[topic]: round(score, 5) for topic, score in intruders.by_topic.items()},
    )


def _alarms(config: TopicsConfig, rows: list[dict[str, Any]], largest_cluster: float) -> list[str]:
    documents = sum(row["documents"] for row in rows)
    alarms = [
        f"topic {row['name']} holds {row['documents'] / documents:.0%} of the documents"
        for row in rows
        if row["documents"] > config.alarm_fraction * documents
    ]
    if largest_cluster > config.alarm_fraction:
        alarms.append(f"one of {config.num_clusters} clusters holds {largest_cluster:.0%} of the sample")
    return alarms


@kind("cluster/topics", version=2)
def topics(config: TopicsConfig, out: Out) -> TopicsResult:
    """Writes `<source>/part-NNNNN.parquet` (id, cluster int32, topic int16), topics.json, model/*.npy and what to read.

    topics.json holds a topic's terms, documents by source, clusters, stability and intruder score; samples.json documents of
    each (texts are those of the sources, mail among them if it is one); intruder_questions.jsonl questions of the
    intruder test without, and intruder_answers.jsonl with, what is right.

    Raises:
        ConfigError: there are too few documents for the clusters and topics.
        StepFailed: the embeddings belong to other documents, are not finite, or a cluster is empty.
    """
    from steps.cluster.kmeans import centered
    from steps.cluster.sample import read_sample
    from steps.cluster.training import mean_cosine, source_agreement, stability, topic_stability, train_divisions

    started = time.monotonic()
    tables = {source.name: f"{config.embeddings}/{source.name}" for source in config.documents}
    for source in config.documents:
        check_same_shards(document_shards(source.path), source.path, tables[source.name], "embeddings")
    vectors, sources = read_sample(tables, config.sample_documents, config.seed)
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32) * np.float32(config.center)
    vectors = centered(vectors, mean)
    divisions = train_divisions(
        vectors,
        num_clusters=config.num_clusters,
        num_topics=config.num_topics,
        min_topic_fraction=config.min_topic_fraction,
        seeds=range(config.seed, config.seed + 1 + config.stability_seeds),
        iterations=config.iterations,
        restarts=config.restarts,
        merge_restarts=config.merge_restarts,
        num_threads=config.num_threads,
    )
    division = divisions[0]
    write_array(out.file("model/mean.npy"), mean)
    write_array(out.file("model/centroids.npy"), division.centroids)
    write_array(out.file("model/cluster_topics.npy"), division.cluster_topics)
    out.progress(f"{config.num_clusters} clusters of {len(vectors)} documents, merged into {config.num_topics} topics")

    items, counts = _assign_all(config, out)
    rows = _topic_rows(config, division.cluster_topics, counts)
    names, sizes = [row["name"] for row in rows], [row["documents"] for row in rows]
    offered = [
        (key.rpartition("/")[0], items[key], [topic["samples"] for topic in each]) for key, each in counts.items()
    ]
    samples = read_samples(offered, config.samples_per_topic)
    write_samples(out, samples, names)
    write_questions(out, samples, names, sizes, config.exported_questions, config.seed)
    intruders = _test_intruders(config, samples, sizes)
    stable = topic_stability(divisions)
    for row in rows:
        row["stability"] = stable[row["topic"]]
        row["intruder_score"] = intruders.by_topic.get(row["topic"]) if intruders else None
    value = {"cluster_sample_documents": division.sizes.tolist(), "topics": rows}
    write_bytes(out.file("topics.json"), json.dumps(value, indent=1, ensure_ascii=False).encode())
    agreement = source_agreement(division, sources)
    largest_cluster = float(division.sizes.max() / len(vectors))
    alarms = _alarms(config, rows, largest_cluster)
    for alarm in alarms:
        out.progress(f"alarm: {alarm}")
    return TopicsResult(
        documents=sum(sizes),
        sample=len(vectors),
        num_clusters=config.num_clusters,
        topic_documents=dict(zip(names, sizes, strict=True)),
        largest_topic_fraction=round(max(sizes) / sum(sizes), 5),
        largest_cluster_fraction=round(largest_cluster, 5),
        mean_cosine=round(mean_cosine(vectors, division), 5),
        source_purity=agreement.cluster_purity,
        sources=agreement,
        stability=stability(divisions),
        topic_stability={name: each for name, each in zip(names, stable, strict=True) if each is not None},
        intruders=_intruder_figures(intruders, names),
        alarms=alarms,
        seconds=time.monotonic() - started,
    )
