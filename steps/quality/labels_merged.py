"""Several sets of labels as one: what was read, say, beside what sources say of documents that nobody may read."""

from collections import Counter
from dataclasses import dataclass

from marin_exec import ConfigError, InputPath, Out, StepFailed, kind
from steps.quality.labels import Agreement, agreement, read_labels, write_labels


@dataclass(frozen=True, kw_only=True)
class LabelsMergedConfig:
    labels: tuple[InputPath, ...]
    """Outputs of labels steps. A document of two has a reading of each, and its score is their mean."""

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError("LabelsMergedConfig.labels: (); at least one output of a labels step is needed")


@dataclass(frozen=True, kw_only=True)
class LabelsMergedResult:
    documents: int
    """Documents with a label."""
    readings: int
    """Labels of them."""
    readings_by_reader: dict[str, int]
    """Labels by who read."""
    score_counts: dict[str, int]
    """Readings by score."""
    content_type_counts: dict[str, int]
    """Readings by content type."""
    agreement: Agreement | None
    """Between the first two readings of documents read twice."""


@kind("quality/labels_merged", version=1)
def labels_merged(config: LabelsMergedConfig, out: Out) -> LabelsMergedResult:
    """Writes `labels.jsonl`.

    Raises:
        StepFailed: two sets hold a reading of one document by one reader.
    """
    found = [(path, label) for path in config.labels for label in read_labels(f"{path}/labels.jsonl")]
    first: dict[tuple[str, str], str] = {}
    for path, label in found:
        other = first.setdefault((label.id, label.reader), path)
        if other != path:
            raise StepFailed(
                f"{label.reader} has read {label.id} in {other} and in {path}; one reading a reader: leave one of the sets out, or "
                f"rename the reader in it"
            )
    labels = [label for _, label in found]
    write_labels(out.file("labels.jsonl"), labels)
    return LabelsMergedResult(
        documents=len({label.id for label in labels}),
        readings=len(labels),
        readings_by_reader=dict(sorted(Counter(label.reader for label in labels).items())),
        score_counts={str(score): count for score, count in sorted(Counter(label.score for label in labels).items())},
        content_type_counts=dict(sorted(Counter(label.content_type for label in labels).items())),
        agreement=agreement(labels),
    )
