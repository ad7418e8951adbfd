"""What the page of topics shows, read from the outputs of cluster/topics, embed/documents and mix/cells as plain values."""

from collections import defaultdict
from dataclasses import asdict
from typing import Any

import numpy as np

from steps.cluster.merging_further import merging_further
from steps.embed.vectors import read_array
from steps.report.outputs import read_json, recorded_config, recorded_result
from steps.report.sample_passages import sample_values
from steps.report.shown import Shower

MOST_MERGERS = 40
_FIGURES = ("num_clusters", "sample", "mean_cosine", "largest_cluster_fraction", "alarms")


def topic_rows(topics: str, cells: str | None) -> list[dict[str, Any]]:
    """Returns a row a topic, largest first.

    Each has topic (number), name, terms, documents, share, documents_by_source, clusters (a count), sample_share, source and
    purity (the commonest source and its share), stability and intruder_score (None where not asked), and bytes,
    documents_kept and bytes_kept from mix/cells (None without).
    """
    listed = read_json(f"{topics}/topics.json")
    sizes = np.array(listed["cluster_sample_documents"], dtype=float)
    total = sum(row["documents"] for row in listed["topics"])
    sums: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in read_json(f"{cells}/cube.json") if cells is not None else []:
        for key in ("bytes_in", "documents_kept", "bytes_kept"):
            sums[row["topic"]][key] += row[key]
    rows = []
    for row in listed["topics"]:
        source, most = max(row["documents_by_source"].items(), key=lambda each: each[1])
        rows.append(
            {
                **{key: row[key] for key in ("topic", "name", "terms", "documents", "documents_by_source")},
                "share": row["documents"] / total if total else 0.0,
                "clusters": len(row["clusters"]),
                "sample_share": float(sizes[row["clusters"]].sum() / sizes.sum()),
                "source": source,
                "purity": most / row["documents"] if row["documents"] else None,
                "stability": row.get("stability"),
                "intruder_score": row.get("intruder_score"),
                "bytes": sums[row["topic"]]["bytes_in"] if cells is not None else None,
                "documents_kept": sums[row["topic"]]["documents_kept"] if cells is not None else None,
                "bytes_kept": sums[row["topic"]]["bytes_kept"] if cells is not None else None,
            }
        )
    return sorted(rows, key=lambda each: (-each["documents"], each["topic"]))


def trust(topics: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures by which topics are judged; those that only the step's record has are None without one.

    `purity` is over all documents; `intruders_by_size` the mean of the topics' scores, weighted by their documents.
    """
    result = recorded_result(topics) or {}
    asked = [row for row in rows if row["intruder_score"] is not None]
    documents = sum(row["documents"] for row in rows)
    weight = sum(row["documents"] for row in asked)
    pure = sum(max(row["documents_by_source"].values()) for row in rows)
    return {
        **{key: result.get(key) for key in (*_FIGURES, "stability", "sources", "intruders")},
        "config": recorded_config(topics),
        "purity": pure / documents if documents else None,
        "intruders_by_size": sum(row["documents"] * row["intruder_score"] for row in asked) / weight
        if weight
        else None,
    }


def mergers(topics: str) -> list[dict[str, Any]]:
    """Returns what would be merged next, see steps/cluster/merging_further.py; the first `MOST_MERGERS`."""
    sizes = np.array(read_json(f"{topics}/topics.json")["cluster_sample_documents"], dtype=float)
    centroids, of_cluster = (read_array(f"{topics}/model/{name}.npy") for name in ("centroids", "cluster_topics"))
    return [asdict(each) for each in merging_further(centroids, sizes, of_cluster, MOST_MERGERS)]


def embedding(path: str) -> dict[str, Any]:
    """Returns {"encoder": config fields as text, "result": dimensions, scale, clipped share, cosines, or None}."""
    result = recorded_result(path)
    keys = ("documents", "dimensions", "scale", "clipped_fraction", "min_cosine", "mean_cosine")
    return {
        "encoder": {
            name.removeprefix("encoder."): value
            for name, value in recorded_config(path).items()
            if name.startswith("encoder") or name == "max_characters"
        },
        "result": {key: result[key] for key in keys} if result else None,
    }


def topic_samples(topics: str, names: list[str], shower: Shower, per_topic: int) -> dict[str, list[dict[str, Any]]]:
    """Returns documents of each topic by its name, in the order of `names`: the first of the step's seeded samples."""
    samples = read_json(f"{topics}/samples.json")
    return {
        name: [sample_values(row, shower, total=row["characters"]) for row in samples[name][:per_topic]]
        for name in names
    }
