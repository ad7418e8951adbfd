"""How unsure the student is of a document: how far apart students fitted on resampled labels are.

Each member is a ridge regression with the student's penalty on a bootstrap resample of the labelled documents;
near-duplicates are drawn together, so that a licence read ten times is not ten opinions. Members are linear in the same
features, so a committee is a matrix, and asking it costs hardly more than asking one.

Shapes: n labelled documents, p features, m members.
"""

import numpy as np

from steps.quality.features import Blocks
from steps.quality.student import Student, linear


def fit_committee(
    blocks: Blocks, scores: np.ndarray, groups: np.ndarray, student: Student, *, members: int, seed: int
) -> np.ndarray:
    """Returns the members' weights, float64[m, p + 1], the intercept last.

    Args:
        blocks: of the labelled documents.
        scores: float64[n], labels from 1 to 5.
        groups: int64[n]: documents of one number are drawn together.
        student: fitted on all; its penalty and its standardisation are the members'.
        members: m.
        seed: of the resamples.
    """
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(seed)
    rows_of = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    weights = []
    with threadpool_limits(limits=1):  # two BLAS threads add up in another order, and the weights' last bits differ
        matrix = blocks.matrix(student.surface_center, student.surface_spread)
        for _ in range(members):
            drawn = rng.integers(0, len(rows_of), len(rows_of))
            rows = np.concatenate([rows_of[each] for each in drawn])
            center, mean = matrix[rows].mean(axis=0), scores[rows].mean()
            centred = matrix[rows] - center
            # The dual form: there are fewer documents than features.
            dual = np.linalg.solve(centred @ centred.T + student.penalty * np.eye(len(rows)), scores[rows] - mean)
            slope = centred.T @ dual
            weights.append(np.append(slope, mean - center @ slope))
    return np.stack(weights)


def disagreement(blocks: Blocks, student: Student, weights: np.ndarray) -> np.ndarray:
    """Returns the standard deviation of the members' scores of each document, float64[n]."""
    return blocks.document_means(linear(blocks, student, weights)).std(axis=1)
