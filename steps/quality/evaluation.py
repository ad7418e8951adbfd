"""How well predictions of quality agree with labels, with bootstrap intervals.

Spearman over all documents can be won by knowing the source alone (a docstring tends to be better than a licence);
Spearman within sources cannot, and is what says that a student reads the text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from steps.quality.labels import mean_ranks, spearman

MIN_SOURCE_LABELS = 10
"""Sources with fewer labels do not count towards the figure within sources."""


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
    auc: Estimate
    """Of good documents (see `positive_score`) against the rest: 0.5 is chance."""


def spearman_within(predictions: np.ndarray, scores: np.ndarray, sources: np.ndarray) -> float:
    """Returns the mean of each source's Spearman, weighted by its labels.

    A predictor that is constant within a source has 0 there. Sources with fewer than ten labels, or with one score only,
    are left out; 0 if none is left.
    """
    total, weight = 0.0, 0
    for source in np.unique(sources):
        chosen = sources == source
        count = int(chosen.sum())
        if count >= MIN_SOURCE_LABELS and np.ptp(scores[chosen]) > 0:
            total += count * spearman(predictions[chosen], scores[chosen])
            weight += count
    return total / weight if weight else 0.0


def spearman_by(predictions: np.ndarray, scores: np.ndarray, groups: np.ndarray, min_labels: int) -> dict[str, float]:
    """Returns the Spearman within each group (str[n]) that has at least `min_labels` documents, by group."""
    names = [str(name) for name in np.unique(groups) if (groups == name).sum() >= min_labels]
    return {name: round(spearman(predictions[groups == name], scores[groups == name]), 4) for name in names}


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
    *,
    positive_score: float,
    num_resamples: int,
    seed: int,
) -> dict[str, Scorecard]:
    """Returns what each predictor achieves, all on the same resamples.

    Args:
        predictors: float[n] by name.
        scores: float[n], labels.
        sources: str[n].
        positive_score: documents labelled at least this are the positives of the AUC.
        num_resamples: bootstrap resamples.
        seed: of the resamples.
    """
    draws = resamples(sources, num_resamples, seed)
    positive = scores >= positive_score
    cards = {}
    for name, values in predictors.items():
        cards[name] = Scorecard(
            spearman=estimate(lambda rows, v=values: spearman(v[rows], scores[rows]), len(scores), draws),
            spearman_within_source=estimate(
                lambda rows, v=values: spearman_within(v[rows], scores[rows], sources[rows]), len(scores), draws
            ),
            auc=estimate(lambda rows, v=values: auc(v[rows], positive[rows]), len(scores), draws),
        )
    return cards


def difference_within(
    student: np.ndarray, baseline: np.ndarray, scores: np.ndarray, sources: np.ndarray, *, num_resamples: int, seed: int
) -> Estimate:
    """Returns how much larger the student's Spearman within sources is than a baseline's, paired over resamples."""

    def figure(rows: np.ndarray) -> float:
        of = [spearman_within(each[rows], scores[rows], sources[rows]) for each in (student, baseline)]
        return of[0] - of[1]

    return estimate(figure, len(scores), resamples(sources, num_resamples, seed))
