"""How scores are spread, counted a shard at a time: what says whether a score chooses within a source or a content type.

Counts and sums are added up over shards in the order of their names, so a tally does not depend on who counted what.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steps.quality.calibration import buckets

NUM_BUCKETS = 5
NUM_BINS = 20
"""Equal bins of a histogram, four a bucket."""


def tally_scores(scores: np.ndarray, content_types: list[str]) -> dict[str, Any]:
    """Returns, by content type: documents, sum and sum of squares of their scores, and counts by bucket and by bin.

    Args:
        scores: float32[n] in 0..1.
        content_types: n names.
    """
    types, found = np.array(content_types, dtype=object), {}
    for name in sorted(set(content_types)):
        chosen = scores[types == name]
        exact = chosen.astype(np.float64)
        bins = np.minimum((exact * NUM_BINS).astype(np.int64), NUM_BINS - 1)
        found[name] = {
            "documents": len(chosen),
            "sum": float(exact.sum()),
            "squares": float(np.square(exact).sum()),
            "buckets": np.bincount(buckets(chosen), minlength=NUM_BUCKETS).tolist(),
            "bins": np.bincount(bins, minlength=NUM_BINS).tolist(),
        }
    return found


@dataclass
class Tally:
    """What `tally_scores` found, added up."""

    by_type: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, by_type: dict[str, dict[str, Any]]) -> None:
        for name, row in by_type.items():
            mine = self.by_type.setdefault(name, {})
            for key, value in row.items():
                if isinstance(value, list):
                    mine[key] = [a + b for a, b in zip(mine.get(key, [0] * len(value)), value, strict=True)]
                else:
                    mine[key] = mine.get(key, 0) + value

    @property
    def documents(self) -> int:
        return sum(row["documents"] for row in self.by_type.values())

    def buckets(self) -> list[int]:
        """Returns documents by bucket."""
        return np.sum([row["buckets"] for row in self.by_type.values()] or [[0] * NUM_BUCKETS], axis=0).tolist()

    def moments(self, content_type: str | None = None) -> tuple[float, float]:
        """Returns mean and standard deviation of the scores, of all documents or of one content type."""
        rows = [row for name, row in self.by_type.items() if content_type in (None, name)]
        count = max(1, sum(row["documents"] for row in rows))
        mean = sum(row["sum"] for row in rows) / count
        variance = sum(row["squares"] for row in rows) / count - mean * mean
        return round(mean, 4), round(float(np.sqrt(max(0.0, variance))), 4)

    def histograms(self) -> dict[str, list[int]]:
        """Returns documents by bin, by content type."""
        return {name: self.by_type[name]["bins"] for name in sorted(self.by_type)}


def within_type_spread(tally: Tally) -> float:
    """Returns the standard deviation of scores about the mean of their content type."""
    squares = sum(
        row["squares"] - row["sum"] ** 2 / row["documents"] for row in tally.by_type.values() if row["documents"]
    )
    return round(float(np.sqrt(max(0.0, squares) / max(1, tally.documents))), 4)


def bucket_shares(tally: Tally) -> dict[str, float]:
    """Returns the share of documents in each bucket."""
    counts = tally.buckets()
    return {str(bucket): round(count / max(1, tally.documents), 4) for bucket, count in enumerate(counts)}
