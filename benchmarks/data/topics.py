"""Topics: purity by true sources, stability over seeds, the intruder test, and what 5,000 clusters of 200,000 vectors take.

python -m benchmarks.data.topics            # the whole: 4 CPU minutes, most of them the 5,000 clusters
python -m benchmarks.data.topics --short    # without these
"""

import sys
import time

import numpy as np

from benchmarks.data._corpora import normalised
from benchmarks.data._fourteen import static_table, texts_and_sources
from benchmarks.data._measured import measured
from benchmarks.figures import Figures
from steps.cluster.agreement import contingency, purity
from steps.cluster.intruders import CHANCE, intruder_score, word_similarities
from steps.cluster.kmeans import assign, centered, train_centroids
from steps.cluster.training import source_agreement, stability, train_divisions
from steps.contract import document_shards, read_documents
from steps.embed.encoders import StaticTable, encode
from steps.embed.vectors import quantize

_REFERENCE = {14: 0.59, 40: 0.66, 200: 0.76}
"""Purity of a static table by 14 sources, as measured before this stage was written: what is to be reached."""
_CLUSTERS, _TOPICS = 200, 30
_MANY_CLUSTERS, _MANY_VECTORS, _ITERATIONS = 5_000, 200_000, 20
_SAMPLES_PER_TOPIC = 40


def stored_vectors(texts: list[str], table: str) -> np.ndarray:
    """Returns float32[n, d]: the texts' vectors as topics read them from int8."""
    encoder = StaticTable(table=table)
    stored = quantize(encode(encoder, texts), encoder.int8_range).astype(np.float32)
    return stored / np.linalg.norm(stored, axis=1, keepdims=True)


def purities(figures: Figures, vectors: np.ndarray, sources: np.ndarray) -> None:
    for num_clusters, reference in _REFERENCE.items():
        clusters = assign(vectors, train_centroids(vectors, num_clusters, seed=0, iterations=20, restarts=3))
        found = purity(contingency(clusters, sources))
        figures.add(f"purity by 14 sources, {num_clusters} clusters", found, "share", at_least=reference)


def trust(figures: Figures, texts: list[str], vectors: np.ndarray, sources: np.ndarray) -> None:
    """Figures of 30 topics, and of the same with the smaller half of the topics thrown together: a bucket of leftovers."""
    divisions = train_divisions(
        vectors, num_clusters=_CLUSTERS, num_topics=_TOPICS, min_topic_fraction=0.01, seeds=(0, 1, 2), iterations=20,
        restarts=3, merge_restarts=5, num_threads=1,
    )  # fmt: skip
    stable = stability(divisions)
    assert stable is not None
    figures.add("clusters: adjusted Rand index between seeds", stable.cluster_rand, "index")
    figures.add("clusters: normalised mutual information between seeds", stable.cluster_information, "share")
    figures.add("topics: adjusted Rand index between seeds", stable.topic_rand, "index")
    figures.add("topics: normalised mutual information between seeds", stable.topic_information, "share")
    agreement = source_agreement(divisions[0], sources)
    figures.add("topics: purity by source", agreement.topic_purity, "share")
    figures.add("topics: normalised mutual information with sources", agreement.topic_information, "share")
    topics = divisions[0].topics.astype(np.int64)
    for name, chosen in (
        ("topics", topics),
        ("topics, the smaller half of them as one", np.minimum(topics, _TOPICS // 2)),
        ("documents dealt out to topics at random", np.random.default_rng(0).permutation(topics)),
    ):
        by_size, by_topic, error = intruders(texts, chosen)
        figures.add(f"intruders told, {name}, weighted by size (guessing {CHANCE})", by_size, "share")
        figures.add(f"intruders told, {name}: standard error", error, "share")
        figures.add(f"intruders told, {name}, every topic alike", by_topic, "share")


def intruders(texts: list[str], topics: np.ndarray) -> tuple[float, float, float]:
    """Returns the score weighted by size, its mean over topics, and its standard error."""
    rng = np.random.default_rng(0)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(topics == each))[:_SAMPLES_PER_TOPIC] for each in range(topics.max() + 1)]
    )
    similarities = word_similarities([texts[row][:4_000] for row in chosen])
    found = intruder_score(similarities, topics[chosen].tolist(), np.bincount(topics).tolist(), questions=2_000, seed=0)
    assert found is not None
    return found.score, float(np.mean(list(found.by_topic.values()))), found.standard_error


def many_clusters(table: str) -> tuple[float, int]:
    """Returns the CPU seconds of one training, and how many vectors it had."""
    vectors = []
    for path in normalised().values():
        for shard in document_shards(path):
            vectors.append(stored_vectors(read_documents(path, shard, ["text"])["text"].to_pylist(), table))
    chosen = np.concatenate(vectors)
    chosen = chosen[np.random.default_rng(0).permutation(len(chosen))[:_MANY_VECTORS]]
    chosen = centered(chosen, chosen.mean(axis=0))
    started = time.process_time()
    train_centroids(chosen, _MANY_CLUSTERS, seed=0, iterations=_ITERATIONS, restarts=1)
    return time.process_time() - started, len(chosen)


def main() -> int:
    figures = Figures()
    texts, sources = texts_and_sources()
    table = static_table()
    stored = stored_vectors(texts, table)
    vectors = centered(stored, stored.mean(axis=0))
    purities(figures, vectors, sources)
    trust(figures, texts, vectors, sources)
    if "--short" not in sys.argv[1:]:
        found = measured(many_clusters, table)
        seconds, count = found.value
        what = f"k-means, {_MANY_CLUSTERS:,} clusters of {count:,} x {vectors.shape[1]}, {_ITERATIONS} iterations"
        figures.add(what, seconds, "CPU s", at_most=300)
        figures.add(f"{what}: peak memory, reading included", found.peak_megabytes, "MB", at_most=4_000)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
