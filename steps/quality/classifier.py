"""Distil labels into a student that scores any document, and say honestly how good it is.

Held-out figures come from cross-fitting: every labelled document is predicted by a student that saw neither it nor a
near-duplicate of it. The student that is kept is fitted on all labels.
"""

import json
import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from marin_exec import InputPath, Out, StepFailed, kind, measured, open_file
from steps.config_checks import check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, join_dense, read_table
from steps.embed.vectors import scale_in, vectors_of
from steps.quality.evaluation import Estimate, Scorecard, difference_within, scorecards, spearman_by
from steps.quality.labels import Label, first_readings, mean_scores, read_labels, spearman


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets."""
    embeddings: InputPath
    """Output of an "embed/documents" step on the same sources."""
    labels: InputPath
    """Output of a "quality/labels_file" or "quality/labels_llm" step."""
    hash_bits: int = 12
    """Words and word pairs are hashed to this many bits."""
    max_characters: int = 4_000
    """Characters of a document that are read for words."""
    num_folds: int = 10
    """Of the cross-fitting."""
    positive_score: float = 4.0
    """Documents labelled at least this are the good ones of the AUC."""
    min_labels_per_type: int = 40
    """Content types with fewer labels share one calibration curve."""
    num_resamples: int = 1_000
    """Of the bootstrap."""
    seed: int = 0
    """Of folds and bootstrap."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "hash_bits", low=4, high=20)
        check_number(self, "num_folds", low=2)
        check_number(self, "max_characters", "min_labels_per_type", "num_resamples", low=1)
        check_number(self, "positive_score", above=1, high=5)


@dataclass(frozen=True, kw_only=True)
class ClassifierResult:
    labelled: int
    """Documents fitted on."""
    groups: int
    """Of near-duplicates among them; folds keep groups together."""
    positives: int
    """Labelled at least `positive_score`."""
    student: Scorecard
    """Held-out figures of the student."""
    source_mean: Scorecard
    """Baseline: the mean label of the document's source, of all its labels, which favours the baseline."""
    length: Scorecard
    """Baseline: the logarithm of the document's characters, with the sign that suits the labels better."""
    gain_within_source: Estimate
    """Student's Spearman within sources less the length's, paired."""
    spearman_by_source: dict[str, float]
    """Student's held-out Spearman in each source."""
    spearman_by_type: dict[str, float]
    """In each content type with `min_labels_per_type` labels."""
    content_type_accuracy: float
    """Held-out share of documents whose content type the student finds."""
    curves: tuple[str, ...]
    """Content types with a calibration curve of their own; "all" is the others'."""
    beats_baselines: bool
    """Whether the interval of `gain_within_source` and that of the student's own figure within sources are above 0."""
    verdict: str
    """The same in a sentence."""
    seconds: Annotated[float, measured]
    """Wall time."""


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


def _read_labelled(config: ClassifierConfig, labels: list[Label]) -> Labelled:
    scores, types = mean_scores(labels), {label.id: label.content_type for label in first_readings(labels)}
    found: dict[str, tuple[str, np.ndarray, str]] = {}
    scale = 0.0
    for source in config.documents:
        for shard in document_shards(source.path):
            documents = read_documents(source.path, shard, columns=["id", "text"])
            where = f"{config.embeddings}/{source.name}/{shard}"
            embeddings = read_table(f"{config.embeddings}/{source.name}", shard)
            joined = join_dense(documents, embeddings, where)
            vectors, scale = vectors_of(embeddings, where), scale_in(embeddings, where)
            for row, (each, text) in enumerate(zip(joined["id"].to_pylist(), joined["text"].to_pylist(), strict=True)):
                if each in scores and each not in found:
                    found[each] = (text, vectors[row], source.name)
    ids = sorted(found)
    if len(ids) < 2 * config.num_folds:
        raise StepFailed(
            f"{len(ids)} labelled documents are in the sources; at least {2 * config.num_folds} (two a fold) are needed: use "
            f"the sources that the labels were made for, or fewer folds"
        )
    return Labelled(
        ids=ids,
        texts=[found[each][0] for each in ids],
        vectors=np.stack([found[each][1] for each in ids]),
        scores=np.array([scores[each] for each in ids]),
        content_types=[types[each] for each in ids],
        sources=np.array([found[each][2] for each in ids]),
        scale=scale,
    )


def _cross_fit(
    config: ClassifierConfig, data: Labelled, blocks: Any, settings: Any
) -> tuple[np.ndarray, list[str], int]:
    """Returns held-out raw scores, float64[n], held-out content types, and the number of near-duplicate groups."""
    from steps.quality.features import near_duplicate_groups
    from steps.quality.student import fit_student, fold_of

    groups = near_duplicate_groups(blocks.hashed)
    folds = fold_of(groups, data.ids, config.num_folds, config.seed)
    types = np.array(data.content_types)
    predictions, found = np.zeros(len(data.ids)), types.copy()
    for fold in np.unique(folds):
        rest, held_out = folds != fold, folds == fold
        if not rest.any():
            raise StepFailed(f"all {len(data.ids)} labelled documents are near-duplicates of each other: label others")
        student = fit_student(
            blocks.take(rest), data.scores[rest], types[rest].tolist(), settings=settings, scale=data.scale
        )
        predictions[held_out], found[held_out] = student.predict(blocks.take(held_out))
    return predictions, found.tolist(), len(np.unique(groups))


def baselines(texts: list[str], scores: np.ndarray, sources: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what needs no model: each document's source's mean label, and its log length, float64[n] each."""
    source_mean = np.zeros(len(scores))
    for source in np.unique(sources):
        source_mean[sources == source] = scores[sources == source].mean()
    length = np.log1p([len(text) for text in texts])
    sign = 1.0 if spearman(length, scores) >= 0 else -1.0
    return {"source_mean": source_mean, "length": sign * length}


def verdict(student: Scorecard, gain: Estimate, length: Scorecard) -> tuple[bool, str]:
    """Returns whether the student is better than its baselines within sources, and that in a sentence."""
    own = student.spearman_within_source
    figures = (
        f"within sources its Spearman is {own.value:.3f} [{own.low:.3f}, {own.high:.3f}], the document's length has "
        f"{length.spearman_within_source.value:.3f}, the source's mean 0 by construction"
    )
    if own.low > 0 and gain.low > 0:
        return True, f"The student beats both baselines: {figures}."
    if own.low > 0:
        return False, f"The student reads the text, but is not shown to beat the document's length: {figures}."
    return False, f"The student is not shown to know more than the source: {figures}."


@kind("quality/classifier", version=1)
def classifier(config: ClassifierConfig, out: Out) -> ClassifierResult:
    """Writes the student (student.json, score_weights.npy, type_weights.npy) and held_out.jsonl, one label a line.

    Raises:
        StepFailed: too few labelled documents are in the sources, or embeddings belong to other documents.
    """
    from steps.quality.calibration import ALL_TYPES, fit_curves
    from steps.quality.features import FeatureSettings, read_blocks
    from steps.quality.student import fit_student, save_student

    started = time.monotonic()
    data = _read_labelled(config, read_labels(f"{config.labels}/labels.jsonl"))
    settings = FeatureSettings(hash_bits=config.hash_bits, max_characters=config.max_characters)
    out.progress(f"{len(data.ids)} labelled documents; cross-fitting in {config.num_folds} folds")
    blocks = read_blocks(data.texts, data.vectors, settings)
    predictions, types, groups = _cross_fit(config, data, blocks, settings)
    student = fit_student(blocks, data.scores, data.content_types, settings=settings, scale=data.scale)
    # Curves go by the content type that the student finds: at scoring time there is no other.
    curves = fit_curves(predictions, data.scores, types, config.min_labels_per_type)
    save_student(out, student, curves)
    _write_held_out(out.file("held_out.jsonl"), data, predictions, types)

    resampling = {"num_resamples": config.num_resamples, "seed": config.seed}
    others = baselines(data.texts, data.scores, data.sources)
    cards = scorecards(
        {"student": predictions, **others},
        data.scores,
        data.sources,
        positive_score=config.positive_score,
        **resampling,
    )
    gain = difference_within(predictions, others["length"], data.scores, data.sources, **resampling)
    beats, sentence = verdict(cards["student"], gain, cards["length"])
    return ClassifierResult(
        labelled=len(data.ids),
        groups=groups,
        positives=int((data.scores >= config.positive_score).sum()),
        student=cards["student"],
        source_mean=cards["source_mean"],
        length=cards["length"],
        gain_within_source=gain,
        spearman_by_source=spearman_by(predictions, data.scores, data.sources, 2),
        spearman_by_type=spearman_by(
            predictions, data.scores, np.array(data.content_types), config.min_labels_per_type
        ),
        content_type_accuracy=round(
            float(np.mean([a == b for a, b in zip(types, data.content_types, strict=True)])), 4
        ),
        curves=tuple(sorted(curves, key=lambda name: (name == ALL_TYPES, name))),
        beats_baselines=beats,
        verdict=sentence,
        seconds=time.monotonic() - started,
    )


def _write_held_out(path: str, data: Labelled, predictions: np.ndarray, types: list[str]) -> None:
    with open_file(path, "wb") as file:
        for row, each in enumerate(data.ids):
            value = {
                "id": each,
                "source": str(data.sources[row]),
                "label": data.scores[row],
                "prediction": round(float(predictions[row]), 5),
                "content_type": data.content_types[row],
                "predicted_content_type": types[row],
            }
            file.write((json.dumps(value) + "\n").encode())
