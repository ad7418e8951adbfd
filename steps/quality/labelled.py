"""Labelled documents as a student is fitted on them: texts, embeddings and labels joined, and what is held out together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import StepFailed
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, join_dense, read_table
from steps.embed.vectors import scale_in, vectors_of
from steps.quality.features import Blocks, FeatureSettings, near_duplicate_groups, read_blocks
from steps.quality.labels import Label, first_readings, mean_scores
from steps.quality.student import fit_student, fold_of
from steps.quality.windows import Windows, read_windows


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Labelled documents, sorted by id."""

    ids: list[str]
    texts: list[str]
    vectors: np.ndarray
    """float32[n, d]."""
    scores: np.ndarray
    """float64[n], the mean over readers."""
    content_types: list[str]
    """As the first reader has it."""
    sources: np.ndarray
    """str[n]; a document of several sources counts for the first named."""
    scale: float
    """Of the embeddings."""

    def blocks(self, settings: FeatureSettings, windows: Windows | None, where: str) -> Blocks:
        """Returns what a student reads of them; `where` is named in errors."""
        if windows is None:
            return read_blocks(self.texts, self.vectors, settings)
        return read_windows(self.texts, self.vectors, settings, windows, self.scale, where)


def read_labelled(
    documents: Sequence[NamedInput], embeddings: str, labels: list[Label], *, at_least: int, advice: str
) -> Labelled:
    """Returns the labelled documents that are in the sources.

    Args:
        documents: documents data sets.
        embeddings: output of an "embed/documents" step on them.
        labels: readings; a document's score is their mean.
        at_least: documents needed.
        advice: what to do if there are fewer.

    Raises:
        StepFailed: there are fewer, or the embeddings belong to other documents.
    """
    scores, types = mean_scores(labels), {label.id: label.content_type for label in first_readings(labels)}
    found: dict[str, tuple[str, np.ndarray, str]] = {}
    scale = 0.0
    for source in documents:
        for shard in document_shards(source.path):
            table = read_documents(source.path, shard, columns=["id", "text"])
            where = f"{embeddings}/{source.name}/{shard}"
            vector_table = read_table(f"{embeddings}/{source.name}", shard)
            join_dense(table, vector_table, where)  # for its check of the ids
            ids = table["id"].to_pylist()
            rows = [row for row, each in enumerate(ids) if each in scores and each not in found]
            vectors, scale = (
                vectors_of(vector_table.take(pa.array(rows, pa.int64())), where),
                scale_in(vector_table, where),
            )
            for row, vector in zip(rows, vectors, strict=True):
                found[ids[row]] = (table["text"][row].as_py(), vector, source.name)
    ids = sorted(found)
    if len(ids) < at_least:
        raise StepFailed(f"{len(ids)} labelled documents are in the sources; at least {at_least} are needed: {advice}")
    return Labelled(
        ids=ids,
        texts=[found[each][0] for each in ids],
        vectors=np.stack([found[each][1] for each in ids]),
        scores=np.array([scores[each] for each in ids]),
        content_types=[types[each] for each in ids],
        sources=np.array([found[each][2] for each in ids]),
        scale=scale,
    )


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What students that had not seen a document, nor a near-duplicate of it, made of it."""

    raw: np.ndarray
    """float64[n]."""
    content_types: list[str]
    """n names."""


def held_out_folds(data: Labelled, blocks: Blocks, num_folds: int, seed: int) -> tuple[np.ndarray, int]:
    """Returns each document's fold, int64[n], and the number of near-duplicate groups, each of which is in one fold.

    Raises:
        StepFailed: all documents are near-duplicates of each other.
    """
    groups = near_duplicate_groups(blocks)
    folds = fold_of(groups, data.ids, num_folds, seed)
    if len(np.unique(folds)) < 2:
        raise StepFailed(f"all {len(data.ids)} labelled documents are near-duplicates of each other: label others")
    return folds, len(np.unique(groups))


def cross_fit(data: Labelled, blocks: Blocks, folds: np.ndarray, settings: FeatureSettings) -> HeldOut:
    """Returns what is predicted of each document by a student fitted on the other folds."""
    types = np.array(data.content_types)
    raw, found = np.zeros(len(data.ids)), types.copy()
    for fold in np.unique(folds):
        rest, held_out = folds != fold, folds == fold
        student = fit_student(
            blocks.take(rest), data.scores[rest], types[rest].tolist(), settings=settings, scale=data.scale
        )
        predictions = student.predict(blocks.take(held_out))
        raw[held_out], found[held_out] = predictions.raw, predictions.content_types
    return HeldOut(raw=raw, content_types=found.tolist())
