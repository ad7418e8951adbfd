"""Quality labels from what sources say of their own documents: kind `quality/labels_metadata`.

A mail corpus knows its spam, a corpus of samples its genres. Such a label is real but coarse: it says what sort of document
this is, and nothing of how good one is among its sort, so a student of these alone ranks sorts.
"""

import json
from collections import Counter
from dataclasses import dataclass

from marin_exec import ConfigError, Out, StepFailed, kind
from steps.config_checks import check_choice, check_number, check_sources
from steps.contract import document_shards, read_documents
from steps.documents import NamedInput
from steps.quality.labels import CONTENT_TYPES, SCORES, Label, write_labels
from steps.quality.labels_file import LabelsResult
from steps.seeded_ranks import draw_rank

READER = "metadata"


@dataclass(frozen=True, kw_only=True)
class MetadataLabel:
    """Which documents get which label."""

    source: str
    """Name of a source."""
    field: str = ""
    """Field of the documents' metadata; "" takes all documents of the source."""
    value: str = ""
    """What it must be."""
    score: int
    """1 to 5."""
    content_type: str
    """One of the rubric's."""
    at_most: int = 500
    """Documents, those with the lowest seeded ranks."""

    def __post_init__(self) -> None:
        check_number(self, "at_most", low=1)
        check_choice(self, "content_type", CONTENT_TYPES)
        if self.score not in SCORES:
            raise ConfigError(f"MetadataLabel.score: {self.score!r}; one of {SCORES} is needed")


@dataclass(frozen=True, kw_only=True)
class LabelsMetadataConfig:
    documents: tuple[NamedInput, ...]
    """Documents data sets; only those that a label names are read."""
    labels: tuple[MetadataLabel, ...]
    """The first that fits a document is its label."""
    seed: int = 0
    """Of the choice of documents."""

    def __post_init__(self) -> None:
        check_sources(self, "documents")
        names = {source.name for source in self.documents}
        if unknown := sorted({label.source for label in self.labels} - names):
            raise ConfigError(f"LabelsMetadataConfig.labels: no source {unknown}; the sources are {sorted(names)}")


@kind("quality/labels_metadata", version=1)
def labels_metadata(config: LabelsMetadataConfig, out: Out) -> LabelsResult:
    """Writes `labels.jsonl`.

    Raises:
        StepFailed: a label fits no document.
    """
    found: dict[MetadataLabel, list[tuple[int, str]]] = {label: [] for label in config.labels}
    for source in config.documents:
        labels = [label for label in config.labels if label.source == source.name]
        for shard in document_shards(source.path) if labels else []:
            table = read_documents(source.path, shard, columns=["id", "metadata"])
            for identifier, metadata in zip(table["id"].to_pylist(), table["metadata"].to_pylist(), strict=True):
                fields = json.loads(metadata)
                label = next((each for each in labels if not each.field or fields.get(each.field) == each.value), None)
                if label is not None:
                    found[label].append((draw_rank(config.seed, identifier), identifier))
    for label, documents in found.items():
        if not documents:
            raise StepFailed(
                f"{out.step_name}: no document of {label.source} has {label.field!r} = {label.value!r} in its metadata; "
                f"look at the source's metadata, or leave the label out"
            )
    chosen: dict[str, MetadataLabel] = {}
    for label, documents in found.items():
        for _, identifier in sorted(documents)[: label.at_most]:
            chosen.setdefault(identifier, label)
    readings = [
        Label(
            id=identifier,
            score=label.score,
            content_type=label.content_type,
            reason=f"{label.field} is {label.value}" if label.field else f"of {label.source}",
            reader=READER,
        )
        for identifier, label in sorted(chosen.items())
    ]
    write_labels(out.file("labels.jsonl"), readings)
    by_source = Counter(label.source for label in chosen.values())
    return LabelsResult(
        documents=len(readings),
        readings=len(readings),
        unmatched=0,
        documents_by_source=dict(sorted(by_source.items())),
        score_counts={str(score): count for score, count in sorted(Counter(each.score for each in readings).items())},
        content_type_counts=dict(sorted(Counter(each.content_type for each in readings).items())),
        agreement=None,
    )
