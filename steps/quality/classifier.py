"""Distil labels into a student that scores any document, and say honestly how good it is.

Held-out figures come from cross-fitting: every labelled document is predicted by a student that saw neither it nor a
near-duplicate of it. The student that is kept is fitted on all labels.
"""

import json
import time
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from marin_exec import InputPath, Out, kind, measured, open_file
from steps.config_checks import check_choice, check_number, check_sources
from steps.documents import NamedInput
from steps.quality.calibration import ALL_TYPES, METHODS, fit_curves
from steps.quality.evaluation import (
    MIN_GROUP_LABELS,
    Estimate,
    Scorecard,
    difference_within,
    resamples,
    scorecards,
    spearman_by,
)
from steps.quality.features import Blocks, FeatureSettings
from steps.quality.labelled import HeldOut, Labelled, cross_fit, held_out_folds, read_labelled
from steps.quality.labels import read_labels, spearman
from steps.quality.student import fit_student, save_student
from steps.quality.windows import Windows


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
    calibration: str = "label_shares"
    """How curves are placed: "label_shares" or "level_medians" (see steps/quality/calibration.py)."""
    windows: Windows | None = None
    """Read documents through three windows, and average; None reads the first `max_characters`."""
    num_resamples: int = 1_000
    """Of the bootstrap."""
    seed: int = 0
    """Of folds and bootstrap."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "hash_bits", low=4, high=20)
        check_number(self, "num_folds", low=2)
        check_number(self, "seed", low=0)
        check_number(self, "max_characters", "min_labels_per_type", "num_resamples", low=1)
        check_number(self, "positive_score", above=1, high=5)
        check_choice(self, "calibration", METHODS)


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
    hashed_ngrams: Scorecard
    """Baseline: the same ridge on hashed words and word pairs alone, held out in the same folds."""
    source_mean: Scorecard
    """Baseline: the mean label of the document's source, of all its labels, which favours the baseline."""
    length: Scorecard
    """Baseline: the logarithm of the document's characters, with the sign that suits the labels better."""
    gain_within_source: Estimate
    """Student's Spearman within sources less the length's, paired."""
    gain_over_hashed_ngrams: Estimate
    """The same, less that of the hashed n-grams."""
    spearman_by_source: dict[str, Estimate]
    """Student's held-out Spearman in each source with ten labels or more."""
    spearman_by_type: dict[str, Estimate]
    """In each content type with ten labels or more."""
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


@kind("quality/classifier", version=2)
def classifier(config: ClassifierConfig, out: Out) -> ClassifierResult:
    """Writes the student (student.json, score_weights.npy, type_weights.npy) and held_out.jsonl, one label a line.

    Raises:
        StepFailed: too few labelled documents are in the sources, or embeddings belong to other documents, or are not by
            the windows' encoder.
    """
    started = time.monotonic()
    data = read_labelled(
        config.documents,
        config.embeddings,
        read_labels(f"{config.labels}/labels.jsonl"),
        at_least=2 * config.num_folds,
        advice="two a fold; use the sources that the labels were made for, or fewer folds",
    )
    settings = FeatureSettings(hash_bits=config.hash_bits, max_characters=config.max_characters)
    out.progress(f"{len(data.ids)} labelled documents; cross-fitting in {config.num_folds} folds")
    blocks = data.blocks(settings, config.windows, config.embeddings)
    folds, groups = held_out_folds(data, blocks, config.num_folds, config.seed)
    held = cross_fit(data, blocks, folds, settings)
    student = fit_student(blocks, data.scores, data.content_types, settings=settings, scale=data.scale)
    # Curves go by the content type that the student finds: at scoring time there is no other.
    curves = fit_curves(held.raw, data.scores, held.content_types, config.min_labels_per_type, config.calibration)
    save_student(out, student, curves, config.windows.characters if config.windows else None)
    _write_held_out(out.file("held_out.jsonl"), data, held)

    draws = resamples(data.sources, config.num_resamples, config.seed)
    types = np.array(data.content_types)
    predictors = {
        "student": held.raw,
        "hashed_ngrams": cross_fit(data, without_vectors(blocks), folds, settings).raw,
        **baselines(data.texts, data.scores, data.sources),
    }
    cards = scorecards(predictors, data.scores, data.sources, types, positive_score=config.positive_score, draws=draws)
    gain = difference_within(held.raw, predictors["length"], data.scores, data.sources, draws)
    beats, sentence = verdict(cards["student"], gain, cards["length"])
    right = [found == label for found, label in zip(held.content_types, data.content_types, strict=True)]
    return ClassifierResult(
        labelled=len(data.ids),
        groups=groups,
        positives=int((data.scores >= config.positive_score).sum()),
        student=cards["student"],
        hashed_ngrams=cards["hashed_ngrams"],
        source_mean=cards["source_mean"],
        length=cards["length"],
        gain_within_source=gain,
        gain_over_hashed_ngrams=difference_within(
            held.raw, predictors["hashed_ngrams"], data.scores, data.sources, draws
        ),
        spearman_by_source=spearman_by(held.raw, data.scores, data.sources, draws, MIN_GROUP_LABELS),
        spearman_by_type=spearman_by(held.raw, data.scores, types, draws, MIN_GROUP_LABELS),
        content_type_accuracy=round(float(np.mean(right)), 4),
        curves=tuple(sorted(curves, key=lambda name: (name == ALL_TYPES, name))),
        beats_baselines=beats,
        verdict=sentence,
        seconds=time.monotonic() - started,
    )


def without_vectors(blocks: Blocks) -> Blocks:
    """Returns the blocks of the hashed n-gram baseline: neither embeddings nor surface measures."""
    return replace(blocks, vectors=blocks.vectors[:, :0], surface=np.zeros_like(blocks.surface))


def _write_held_out(path: str, data: Labelled, held: HeldOut) -> None:
    with open_file(path, "wb") as file:
        for row, each in enumerate(data.ids):
            value = {
                "id": each,
                "source": str(data.sources[row]),
                "label": data.scores[row],
                "prediction": round(float(held.raw[row]), 5),
                "content_type": data.content_types[row],
                "predicted_content_type": held.content_types[row],
            }
            file.write((json.dumps(value) + "\n").encode())
