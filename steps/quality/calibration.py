"""From a student's raw predictions to scores between 0 and 1 that mean the same for every content type.

A curve is piecewise linear and rising: its inner knots are the raw values below which lie as large a share of the
predictions on labelled documents as there are labels of score 1, up to 2, up to 3, up to 4, and they map to the bucket
edges 0.2, 0.4, 0.6, 0.8. So the buckets of a labelled sample are filled as its labels are. Midpoints between the median
predictions of neighbouring scores are the other usual choice; with a few hundred labels those medians are not always in
order, which empties buckets. Each content type with enough labels has its own curve, since a raw value of 3 is good for a
licence and poor for a docstring.
"""

from collections.abc import Mapping

import numpy as np

EDGES = (0.2, 0.4, 0.6, 0.8)
"""Edges between the five buckets."""
ALL_TYPES = "all"
"""Name of the curve of types that have too few labels."""
_LEVELS = (1, 2, 3, 4, 5)
_SMOOTHING = 0.5  # labels added to every score, so that a score nobody gave still has a bucket


def fit_curve(predictions: np.ndarray, scores: np.ndarray) -> list[float]:
    """Returns six rising raw values that map to 0, 0.2, 0.4, 0.6, 0.8 and 1.

    Args:
        predictions: float[n], raw, of documents that the model was not fitted on.
        scores: float[n], their labels from 1 to 5; a mean of readings is rounded up from .5.

    Raises:
        ValueError: there are none.
    """
    if len(predictions) == 0:
        raise ValueError("a calibration curve needs at least one labelled document")
    levels = np.clip(np.floor(scores + 0.5), 1, 5)
    counts = np.array([(levels == level).sum() for level in _LEVELS]) + _SMOOTHING
    inner = np.quantile(predictions, np.cumsum(counts)[:-1] / counts.sum())
    spread = max(float(np.ptp(predictions)), 1e-3)
    knots = np.array([min(predictions.min(), inner[0]) - 0.05 * spread, *inner, predictions.max() + 0.05 * spread])
    # Equal predictions give equal knots; a rising curve needs a step between them, too small to matter elsewhere.
    steps = np.maximum(np.diff(knots), 1e-4 * spread)
    return [float(each) for each in np.round(np.concatenate([knots[:1], knots[0] + np.cumsum(steps)]), 9)]


def fit_curves(
    predictions: np.ndarray, scores: np.ndarray, content_types: list[str], min_labels: int
) -> dict[str, list[float]]:
    """Returns a curve over all labels, named "all", and one for each content type with at least `min_labels` labels."""
    curves = {ALL_TYPES: fit_curve(predictions, scores)}
    types = np.array(content_types)
    for content_type in sorted(set(content_types)):
        chosen = types == content_type
        if chosen.sum() >= min_labels:
            curves[content_type] = fit_curve(predictions[chosen], scores[chosen])
    return curves


def calibrated(predictions: np.ndarray, content_types: list[str], curves: Mapping[str, list[float]]) -> np.ndarray:
    """Returns float32[n] in 0..1: each prediction through the curve of its content type."""
    scores = np.empty(len(predictions), dtype=np.float64)
    types = np.array([each if each in curves else ALL_TYPES for each in content_types])
    for name in set(types.tolist()):
        chosen = types == name
        scores[chosen] = np.interp(predictions[chosen], curves[name], (0.0, *EDGES, 1.0))
    return scores.astype(np.float32)


def buckets(scores: np.ndarray) -> np.ndarray:
    """Returns int8[n]: 0 to 4 by the fixed edges; a score on an edge is in the upper bucket."""
    return np.searchsorted(np.array(EDGES, dtype=np.float32), scores, side="right").astype(np.int8)
