"""From a student's raw predictions to scores between 0 and 1 that mean the same for every content type.

A curve is piecewise linear and rising: its inner knots are raw values that map to the bucket edges 0.2, 0.4, 0.6, 0.8.
Each content type with enough labels has its own curve, since a raw value of 3 is good for a licence and poor for a
docstring. Two ways to place the knots:

* "label_shares": below a knot lies as large a share of the predictions on labelled documents as there are labels of score
  1, up to 2, up to 3, up to 4. So the buckets of a labelled sample are filled as its labels are.
* "level_medians": midway between the median predictions of neighbouring scores. A bucket then says which score's documents
  a document is like, whatever the shares of the labelled sample. Medians that are not in order are pooled (isotonic
  regression, weighted by labels); a score that nobody gave is placed by the spacing of the others. A type whose
  medians do not rise at all has no curve of its own: one would only spread noise over the buckets.
"""

from collections.abc import Mapping

import numpy as np

EDGES = (0.2, 0.4, 0.6, 0.8)
"""Edges between the five buckets."""
ALL_TYPES = "all"
"""Name of the curve of types that have too few labels."""
METHODS = ("label_shares", "level_medians")
_LEVELS = (1, 2, 3, 4, 5)
_SMOOTHING = 0.5  # labels added to every score, so that a score nobody gave still has a bucket


def _levels(scores: np.ndarray) -> np.ndarray:
    return np.clip(np.floor(scores + 0.5), 1, 5)


def rising_medians(predictions: np.ndarray, scores: np.ndarray) -> np.ndarray | None:
    """Returns the median prediction of each score 1 to 5, made to rise, float64[5]; None if it is the same for all."""
    from scipy.optimize import isotonic_regression

    levels = _levels(scores)
    given = np.unique(levels)
    if len(given) < 2:
        return None
    counts = [(levels == level).sum() for level in given]
    medians = isotonic_regression([np.median(predictions[levels == level]) for level in given], weights=counts).x
    spacing = (medians[-1] - medians[0]) / (given[-1] - given[0])
    if spacing <= 0:
        return None
    beyond = np.minimum(np.array(_LEVELS) - given[0], 0) + np.maximum(np.array(_LEVELS) - given[-1], 0)
    return np.interp(_LEVELS, given, medians) + beyond * spacing


def _inner_knots(predictions: np.ndarray, scores: np.ndarray, method: str) -> np.ndarray:
    """Returns float64[4], the raw values that map to the edges, not yet made to rise strictly."""
    if method == "level_medians":
        medians = rising_medians(predictions, scores)
        if medians is None:  # of all types together: the labels say nothing, so the raw scale is taken at its word
            medians = np.median(predictions) + np.array(_LEVELS) - np.median(_levels(scores))
        return (medians[1:] + medians[:-1]) / 2
    counts = np.array([(_levels(scores) == level).sum() for level in _LEVELS]) + _SMOOTHING
    return np.quantile(predictions, np.cumsum(counts)[:-1] / counts.sum())


def fit_curve(predictions: np.ndarray, scores: np.ndarray, method: str = "label_shares") -> list[float]:
    """Returns six rising raw values that map to 0, 0.2, 0.4, 0.6, 0.8 and 1.

    Args:
        predictions: float[n], raw, of documents that the model was not fitted on.
        scores: float[n], their labels from 1 to 5; a mean of readings is rounded up from .5.
        method: one of `METHODS`.

    Raises:
        ValueError: there are none.
    """
    if len(predictions) == 0:
        raise ValueError("a calibration curve needs at least one labelled document")
    inner = _inner_knots(predictions, scores, method)
    spread = max(float(np.ptp(predictions)), 1e-3)
    low, high = min(predictions.min(), inner[0]), max(predictions.max(), inner[-1])
    knots = np.array([low - 0.05 * spread, *inner, high + 0.05 * spread])
    # Equal predictions give equal knots; a rising curve needs a step between them, too small to matter elsewhere.
    steps = np.maximum(np.diff(knots), 1e-4 * spread)
    return [float(each) for each in np.round(np.concatenate([knots[:1], knots[0] + np.cumsum(steps)]), 9)]


def fit_curves(
    predictions: np.ndarray,
    scores: np.ndarray,
    content_types: list[str],
    min_labels: int,
    method: str = "label_shares",
) -> dict[str, list[float]]:
    """Returns a curve over all labels, named "all", and one for each content type with at least `min_labels` labels.

    With "level_medians", types whose medians do not rise have none of their own either.
    """
    curves = {ALL_TYPES: fit_curve(predictions, scores, method)}
    types = np.array(content_types)
    for content_type in sorted(set(content_types)):
        chosen = types == content_type
        flat = method == "level_medians" and rising_medians(predictions[chosen], scores[chosen]) is None
        if chosen.sum() >= min_labels and not flat:
            curves[content_type] = fit_curve(predictions[chosen], scores[chosen], method)
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
