"""The quality student: ridge regressions of the score and of each content type, linear in the features.

Fitting is deterministic; a student is two arrays and a JSON object, without pickle.

Shapes: n documents, p features, C content types.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from marin_exec import Out, StepFailed
from steps.embed.vectors import read_array, scale_in, write_array
from steps.files import read_bytes, write_json
from steps.quality.features import Blocks, FeatureSettings
from steps.seeded_ranks import draw_rank

_PENALTIES = np.logspace(-2, 3, 16)


@dataclass(frozen=True, kw_only=True)
class Predictions:
    raw: np.ndarray
    """float64[n], scores on the labels' scale, but not bounded by it: of several windows, their mean."""
    by_window: np.ndarray
    """float64[r], the same of each row."""
    content_types: list[str]
    """n names."""


@dataclass(frozen=True, kw_only=True)
class Student:
    settings: FeatureSettings
    dimensions: int
    """Of the embeddings it was fitted on."""
    scale: float
    """Of the embeddings it was fitted on, as a mark of their encoder."""
    surface_center: np.ndarray
    """float64[5]."""
    surface_spread: np.ndarray
    """float64[5]."""
    score_weights: np.ndarray
    """float64[p + 1], the intercept last."""
    type_weights: np.ndarray
    """float64[C, p + 1], the intercept last."""
    content_types: tuple[str, ...]
    """C names."""
    penalty: float
    """Ridge penalty, chosen by leave-one-out error on the fitted documents."""

    def predict(self, blocks: Blocks) -> Predictions:
        """Returns scores and content types; a document's do not depend on which others are read with it."""
        products = linear(blocks, self, np.concatenate([self.score_weights[None], self.type_weights]))
        types = np.argmax(blocks.document_means(products[:, 1:]), axis=1)
        return Predictions(
            raw=blocks.document_means(products[:, 0]),
            by_window=products[:, 0],
            content_types=[self.content_types[each] for each in types],
        )


def linear(blocks: Blocks, student: Student, weights: np.ndarray) -> np.ndarray:
    """Returns float64[r, k]: k linear functions, float64[k, p + 1] with the intercept last, of the rows that a student sees."""
    d, h = blocks.vectors.shape[1], blocks.hashed.shape[1]
    surface = blocks.standardised(student.surface_center, student.surface_spread)
    # einsum, not BLAS: BLAS adds up in an order that depends on threads and on the number of rows.
    dense = np.concatenate([blocks.vectors, surface], axis=1)
    inner = np.ascontiguousarray(np.concatenate([weights[:, :d], weights[:, d + h : -1]], axis=1))
    products = np.stack([np.einsum("rd,d->r", dense, each) for each in inner], axis=1)
    return products + blocks.hashed @ np.ascontiguousarray(weights[:, d : d + h].T) + weights[:, -1]


def fit_student(
    blocks: Blocks, scores: np.ndarray, content_types: Sequence[str], *, settings: FeatureSettings, scale: float
) -> Student:
    """Returns a student fitted on n labelled documents.

    Args:
        blocks: what was read off them.
        scores: float64[n], labels from 1 to 5.
        content_types: n names.
        settings: that the blocks were read with.
        scale: of the embeddings, kept as a mark.
    """
    from sklearn.linear_model import RidgeCV
    from threadpoolctl import threadpool_limits

    center, spread = blocks.surface.mean(axis=0), np.maximum(blocks.surface.std(axis=0), 1e-6)
    names = tuple(sorted(set(content_types)))
    # One decomposition serves the score and every content type (1 for its documents, 0 for others): at a few hundred
    # labels that takes a fraction of a second, where a logistic regression of the types took most of the step's time.
    one_hot = np.array([[float(each == name) for name in names] for each in content_types])
    ridge: Any = RidgeCV(alphas=_PENALTIES, alpha_per_target=True)
    with threadpool_limits(limits=1):  # two BLAS threads add up in another order, and the weights' last bits differ
        ridge.fit(blocks.matrix(center, spread), np.column_stack([scores, one_hot]))
    weights = np.concatenate([ridge.coef_, ridge.intercept_[:, None]], axis=1)
    return Student(
        settings=settings,
        dimensions=blocks.vectors.shape[1],
        scale=scale,
        surface_center=center,
        surface_spread=spread,
        score_weights=weights[0],
        type_weights=weights[1:],
        content_types=names,
        penalty=float(ridge.alpha_[0]),
    )


def fold_of(groups: np.ndarray, ids: Sequence[str], num_folds: int, seed: int) -> np.ndarray:
    """Returns int64[n]: the fold of each document, by a seeded hash of the smallest id in its group.

    A document's fold does not depend on the order of documents, and all of a group is in one fold.
    """
    smallest: dict[int, str] = {}
    for group, each in zip(groups.tolist(), ids, strict=True):
        smallest[group] = min(each, smallest.get(group, each))
    return np.array([draw_rank(seed, smallest[group]) % num_folds for group in groups.tolist()])


def save_student(
    out: Out, student: Student, curves: dict[str, list[float]], window_characters: int | None = None
) -> None:
    """Writes score_weights.npy, type_weights.npy and student.json (settings, surface measures, curves, window size)."""
    write_array(out.file("score_weights.npy"), student.score_weights)
    write_array(out.file("type_weights.npy"), student.type_weights)
    value = {
        "settings": asdict(student.settings),
        "dimensions": student.dimensions,
        "scale": student.scale,
        "surface_center": student.surface_center.tolist(),
        "surface_spread": student.surface_spread.tolist(),
        "content_types": list(student.content_types),
        "penalty": student.penalty,
        "curves": curves,
        "window_characters": window_characters,
    }
    write_json(out.file("student.json"), value)


@dataclass(frozen=True, kw_only=True)
class SavedStudent:
    """Output of a "quality/classifier" step, as `load_student` reads it."""

    student: Student
    curves: dict[str, list[float]]
    """Calibration curves by content type; "all" is the others'."""
    window_characters: int | None
    """Of the windows that it was fitted through; None if it was fitted on whole documents."""

    def check_reading(self, embeddings: pa.Table, window_characters: int | None, where: str) -> None:
        """Checks that documents are read as those that the student was fitted on were.

        Raises:
            StepFailed: the embeddings have other dimensions or another scale, or the windows are others.
        """
        dimensions, scale = embeddings["embedding"].type.list_size, scale_in(embeddings, where)
        if (dimensions, scale) != (self.student.dimensions, self.student.scale):
            raise StepFailed(
                f"{where}: embeddings of {dimensions} dimensions and scale {scale}; the student was fitted on "
                f"{self.student.dimensions} and {self.student.scale}: give both steps the same embeddings"
            )
        if window_characters != self.window_characters:
            raise StepFailed(
                f"{where}: read through windows of {window_characters} characters, the student was fitted through windows of "
                f"{self.window_characters} (None: whole documents): give both steps the same windows"
            )


def load_student(directory: str) -> SavedStudent:
    """Returns a saved student, its calibration curves and how it reads.

    Raises:
        StepFailed: the directory holds none.
    """
    try:
        value: dict[str, Any] = json.loads(read_bytes(f"{directory}/student.json"))
    except FileNotFoundError as error:
        raise StepFailed(f"{directory}: no student.json; the output of a quality/classifier step is needed") from error
    student = Student(
        settings=FeatureSettings(**value["settings"]),
        dimensions=value["dimensions"],
        scale=value["scale"],
        surface_center=np.array(value["surface_center"]),
        surface_spread=np.array(value["surface_spread"]),
        score_weights=read_array(f"{directory}/score_weights.npy"),
        type_weights=read_array(f"{directory}/type_weights.npy"),
        content_types=tuple(value["content_types"]),
        penalty=value["penalty"],
    )
    return SavedStudent(student=student, curves=value["curves"], window_characters=value["window_characters"])
