"""What the page of quality shows, read from the outputs of the quality steps as plain values."""

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from steps.documents import read_table
from steps.quality.calibration import ALL_TYPES, buckets, calibrated
from steps.quality.excerpts import read_excerpts
from steps.quality.spread import NUM_BINS, NUM_BUCKETS
from steps.quality.student import load_student
from steps.report.outputs import read_json, read_json_lines, recorded_result
from steps.report.sample_passages import sample_values
from steps.report.shown import Shower

_RELIABILITY_BINS = 10


def spread(scores: str) -> dict[str, Any]:
    """Returns documents by bin and content type, and by bucket and content type, and source, from exact counts."""
    read: dict[str, dict[str, list[int]]] = read_json(f"{scores}/histograms.json")
    by_type: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(NUM_BINS, dtype=np.int64))
    by_source = {}
    for source, types in read.items():
        for name, bins in types.items():
            by_type[name] += np.array(bins)
        by_source[source] = _buckets(np.sum([*types.values(), [0] * NUM_BINS], axis=0))
    order = sorted(by_type, key=lambda name: (-int(by_type[name].sum()), name))
    return {
        "documents": int(sum(bins.sum() for bins in by_type.values())),
        "bins": {name: by_type[name].tolist() for name in order},
        "buckets_by_type": {name: _buckets(by_type[name]) for name in order},
        "buckets_by_source": by_source,
        "result": _result(scores, ("mean_by_type", "spread_by_type", "mean_by_source", "uninformative_sources",
                                   "spread_within_types_by_source", "several_windows", "uneven")),
    }  # fmt: skip


def _buckets(bins: np.ndarray) -> list[int]:
    return bins.reshape(NUM_BUCKETS, -1).sum(axis=1).tolist()


def _result(path: str, keys: tuple[str, ...]) -> dict[str, Any] | None:
    result = recorded_result(path)
    return {key: result[key] for key in keys} if result else None


def gate(path: str) -> dict[str, Any] | None:
    """Returns what quality/gate found of each source, or None where no store keeps its record."""
    return _result(
        path, ("documents", "judged", "spread_within_types_by_source", "unjudged_sources", "moved_by_source")
    )


def calibration(classifier: str) -> dict[str, Any]:
    """Returns the curves, and what held-out documents' scores on them say of their labels.

    `reliability` has tenths of the held-out documents, equally many in each: mean score, mean label and its standard error.
    `by_bucket` has labels (rounded up from .5) of each bucket's documents; both go by the content type that the student found.
    """
    curves = load_student(classifier).curves
    rows = read_json_lines(f"{classifier}/held_out.jsonl")
    labels = np.array([row["label"] for row in rows])
    types = [row["predicted_content_type"] for row in rows]
    scores = calibrated(np.array([row["prediction"] for row in rows]), types, curves)
    order = np.lexsort((labels, scores))
    parts = [part for part in np.array_split(order, _RELIABILITY_BINS) if len(part)]
    levels, placed = np.floor(labels + 0.5).astype(int), buckets(scores)
    return {
        "curves": {name: curves[name] for name in sorted(curves, key=lambda name: (name == ALL_TYPES, name))},
        "held_out": len(rows),
        "reliability": [
            {
                "documents": len(part),
                "score": round(float(scores[part].mean()), 4),
                "label": round(float(labels[part].mean()), 4),
                "error": round(float(labels[part].std(ddof=1) / np.sqrt(len(part))), 4) if len(part) > 1 else None,
            }
            for part in parts
        ],
        "by_bucket": [
            [int(((placed == bucket) & (levels == level)).sum()) for level in range(1, 6)]
            for bucket in range(NUM_BUCKETS)
        ],
    }


def to_label(path: str, shower: Shower, shown: int) -> dict[str, Any]:
    """Returns the choice of quality/next_labels: counts, every row with what spoke for it, and excerpts of the first ones."""
    rows = read_table(path, "choice.parquet").to_pylist()
    excerpts = {each.id: each for each in read_excerpts(f"{path}/excerpts.jsonl")}
    return {
        "result": _result(path, ("labelled", "candidates", "mean_uncertainty", "mean_uncertainty_drawn")),
        "by_source": dict(Counter(row["source"] for row in rows).most_common()),
        "by_type": dict(Counter(row["content_type"] for row in rows).most_common()),
        "rows": [
            {**row, **{key: round(row[key], 4) for key in ("uncertainty", "coverage", "novelty")}} for row in rows
        ],
        "shown": [
            sample_values({**row, "source_id": "", "text": excerpts[row["id"]].excerpt}, shower) for row in rows[:shown]
        ],
    }
