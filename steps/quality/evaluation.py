"""How well predictions of quality agree with labels, with bootstrap intervals.

Spearman over all documents can be won by knowing the source alone (a docstring tends to be better than a licence), or the
content type; Spearman within sources, and within types, cannot, and is what says that a student reads the text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from steps.quality.labels import mean_ranks, spearman

MIN_GROUP_LABELS = 10
"""Sources and content types with fewer labels do not count towards the figures within them."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure and its 95 % bootstrap interval."""

    value: float
    low: float
    """2.5 % quantile over resampled documents."""
    high: float
    """97.5 % quantile."""


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """What one predictor achieves on labelled documents."""

    spearman: Estimate
    """Over all documents."""
    spearman_within_source: Estimate
    """Mean over sources, weighted by labels."""
    spearman_within_type: Estimate
    """Mean over content types, weighted by labels."""
    auc: Estimate
    """Of good documents (see `positive_score`) against the rest: 0.5 is chance."""


def spearman_within(predictions: np.ndarray, scores: np.ndarray, groups: np.ndarray) -> float:
    """Returns the mean of each group's (source's, or content type's) Spearman, weighted by its labels.

    A predictor that is constant within a group has 0 there. Groups with fewer than ten labels, or with one score only,
    are left out; 0 if none is left.
    """
    total, weight = 0.0, 0
    for group in np.unique(groups):
        chosen = groups == group
        count = int(chosen.sum())
        if count >= MIN_GROUP_LABELS and np.ptp(scores[chosen]) > 0:
            total += count * spearman(predictions[chosen], scores[chosen])
            weight += count
    return total / weight if weight else 0.0


def spearman_by(
    predictions: np.ndarray, scores: np.ndarray, groups: np.ndarray, draws: list[np.ndarray], min_labels: int
) -> dict[str, Estimate]:
    """Returns the Spearman within each group (str[n]) that has at least `min_labels` documents, by group."""

    def within(group: str) -> Estimate:
        def figure(rows: np.ndarray) -> float:
            rows = rows[groups[rows] == group]
            return spearman(predictions[rows], scores[rows]) if len(rows) else 0.0

        return estimate(figure, len(scores), draws)

    names = [str(name) for name in np.unique(groups) if (groups == name).sum() >= min_labels]
    return {name: within(name) for name in names}


def auc(predictions: np.ndarray, positive: np.ndarray) -> float:
    """Returns the probability that a positive's prediction is above a negative's, ties counted half; 0.5 without both."""
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return 0.5
    return float((mean_ranks(predictions)[positive].sum() - count * (count + 1) / 2) / (count * others))


def resamples(sources: np.ndarray, count: int, seed: int) -> list[np.ndarray]:
    """Returns `count` resamples of the documents with replacement, within each source, as int64[n] rows."""
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(sources == source) for source in np.unique(sources)]
    return [np.concatenate([rng.choice(group, size=len(group)) for group in groups]) for _ in range(count)]


def estimate(figure: Callable[[np.ndarray], float], rows: int, draws: list[np.ndarray]) -> Estimate:
    """Returns a figure of all documents and its interval; `figure` takes the rows to work on."""
    values = np.array([figure(draw) for draw in draws])
    low, high = np.quantile(values, (0.025, 0.975)) if len(values) else (np.nan, np.nan)
    return Estimate(value=round(figure(np.arange(rows)), 4), low=round(float(low), 4), high=round(float(high), 4))


def scorecards(
    predictors: Mapping[str, np.ndarray],
    scores: np.ndarray,
    sources: np.ndarray,
    content_types: np.ndarray,
    *,
    positive_score: float,
    draws: list[np.ndarray],
) -> dict[str, Scorecard]:
    """Returns what each predictor achieves, all on the same resamples.

    Args:
        predictors: float[n] by name.
        scores: float[n], labels.
        sources: str[n].
        content_types: str[n].
        positive_score: documents labelled at least this are the positives of the AUC.
        draws: from `resamples`.
    """
    positive = scores >= positive_score

    def card(values: np.ndarray) -> Scorecard:
        def of(figure: Callable[..., float], *arrays: np.ndarray) -> Estimate:
            return estimate(lambda rows: figure(values[rows], *(each[rows] for each in arrays)), len(scores), draws)

        return Scorecard(
            spearman=of(spearman, scores),
            spearman_within_source=of(spearman_within, scores, sources),
            spearman_within_type=of(spearman_within, scores, content_types),
            auc=of(auc, positive),
        )

    return {name: card(values) for name, values in predictors.items()}


def difference_within(
    student: np.ndarray, baseline: np.ndarray, scores: np.ndarray, groups: np.ndarray, draws: list[np.ndarray]
) -> Estimate:
    """Returns how much larger the student's Spearman within groups is than a baseline's, paired over resamples."""

    def figure(rows: np.ndarray) -> float:
        of = [spearman_within(each[rows], scores[rows], groups[rows]) for each in (student, baseline)]
        return of[0] - of[1]

    return estimate(figure, len(scores), draws)
