"""Adopt a committed file of labels: check that it is the file meant, and join it with the documents at hand."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import xxhash

from marin_exec import ConfigError, IdentityMismatch, Out, StepFailed, kind, runtime
from steps.config_checks import check_number, check_sources
from steps.contract import read_all_documents
from steps.documents import NamedInput
from steps.files import read_bytes, write_bytes
from steps.quality.labels import Agreement, agreement, read_labels, write_labels

ENVIRONMENT_DEFAULT = "environment_default.jsonl"
"""The labels of the default sources, in steps/quality/labels/."""
_DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True)
class LabelsFileConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets that the labels are for."""
    labels: Annotated[str, runtime]
    """Name of a file in steps/quality/labels/, or a path or URL. Where it lies is no identity; `digest` is."""
    digest: str
    """xxh3-128 of the file's bytes, 32 hex digits: `python -m steps.quality.labels_file PATH` prints it."""
    min_matched_fraction: float = 0.9
    """Share of labelled documents that must be among the documents; below it the sources were changed."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        check_number(self, "min_matched_fraction", low=0, high=1)
        if isinstance(self.digest, str) and not _DIGEST.fullmatch(self.digest):
            raise ConfigError(
                f"LabelsFileConfig.digest: {self.digest!r}; 32 hex digits are needed, as "
                f"`python -m steps.quality.labels_file PATH` prints them"
            )


@dataclass(frozen=True, kw_only=True)
class LabelsResult:
    documents: int
    """Documents with a label that are among the data sets."""
    readings: int
    """Labels of these documents; more than documents where some were read twice."""
    unmatched: int
    """Labelled documents that are in none of the data sets, and left out."""
    documents_by_source: dict[str, int]
    """Labelled documents by source; a document of two sources counts in both."""
    score_counts: dict[str, int]
    """Readings by score."""
    content_type_counts: dict[str, int]
    """Readings by content type."""
    agreement: Agreement | None
    """Between the first two readings of documents read twice."""


def file_digest(path: str) -> str:
    """Returns the xxh3-128 of a file's bytes, as 32 hex digits.

    Raises:
        ConfigError: the file does not exist.
    """
    try:
        return xxhash.xxh3_128_hexdigest(read_bytes(path))
    except FileNotFoundError as error:
        raise ConfigError(
            f"label file {path}: not there; give a name in steps/quality/labels/, a path or a URL"
        ) from error


def label_path(labels: str) -> str:
    """Returns the full path of a label file: a bare name is one of those that come with this package."""
    return labels if "/" in labels else str(Path(__file__).parent / "labels" / labels)


@kind("quality/labels_file", version=1)
def labels_file(config: LabelsFileConfig, out: Out) -> LabelsResult:
    """Writes `labels.jsonl`, the labels whose documents are among the data sets, and `unmatched.json`, the other ids.

    Raises:
        ConfigError: the file does not exist.
        IdentityMismatch: its digest is not the one stated.
        StepFailed: a line is no label, or fewer labels match than `min_matched_fraction`.
    """
    path = label_path(config.labels)
    found = file_digest(path)
    if found != config.digest:
        raise IdentityMismatch(
            f"label file {path}: its digest is {found}, the config states {config.digest}; restore the file, or state the new "
            f"digest if the labels were meant to change"
        )
    labels = read_labels(path)
    labelled = {label.id for label in labels}
    by_source = {
        source.name: labelled.intersection(read_all_documents(source.path, columns=["id"])["id"].to_pylist())
        for source in config.documents
    }
    matched = set().union(*by_source.values())
    if not labelled or len(matched) < config.min_matched_fraction * len(labelled):
        raise StepFailed(
            f"label file {path}: {len(matched)} of {len(labelled)} labelled documents are in the sources "
            f"{sorted(by_source)}, less than {config.min_matched_fraction:.0%}; the labels were made for other documents: use "
            f"the sources they were made for, make new ones, or lower min_matched_fraction"
        )
    kept = [label for label in labels if label.id in matched]
    write_labels(out.file("labels.jsonl"), kept)
    write_bytes(out.file("unmatched.json"), json.dumps(sorted(labelled - matched)).encode())
    return LabelsResult(
        documents=len(matched),
        readings=len(kept),
        unmatched=len(labelled - matched),
        documents_by_source={name: len(ids) for name, ids in by_source.items()},
        score_counts={str(score): count for score, count in sorted(Counter(label.score for label in kept).items())},
        content_type_counts=dict(sorted(Counter(label.content_type for label in kept).items())),
        agreement=agreement(kept),
    )


if __name__ == "__main__":
    import sys

    print(file_digest(label_path(sys.argv[1])))
