"""report/quality: how documents score, whether the score can be believed, and documents to judge it by.

`index.html`, self-contained, and `report.json`, the same values.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number, check_sources
from steps.documents import NamedInput
from steps.report.experiment import content_digest
from steps.report.outputs import recorded_result
from steps.report.shown import Shower
from steps.sources.cards import SourceCard


@dataclass(frozen=True, kw_only=True)
class QualityReportConfig:
    title: str = "Quality"
    sources: tuple[NamedInput, ...]
    """Normalised documents data sets that were scored."""
    scores: InputPath
    """Output of quality/scores."""
    classifier: InputPath
    """Output of the quality/classifier that scored them."""
    labels: InputPath | None = None
    """Output of the labels step that it was fitted on."""
    gate: InputPath | None = None
    """Output of quality/gate."""
    next_labels: InputPath | None = None
    """Output of quality/next_labels."""
    cards: tuple[SourceCard, ...]
    """What each source is. Text of a source without one is not shown."""
    samples_per_band: int = 3
    """Documents shown of each content type of low, of middle and of high score."""
    next_shown: int = 20
    """Documents to label next of which the excerpt is shown."""
    characters: int = 500
    """Texts are cut to so many."""
    seed: int = 0
    """Of the choice of documents."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "samples_per_band", "next_shown", low=0)
        check_number(self, "characters", low=1)


@dataclass(frozen=True)
class QualityReportResult:
    page: str
    """Below the output."""
    documents: int
    shown: int
    """Documents of which text is on the page, those to label among them."""
    page_bytes: Annotated[int, measured]


@kind("report/quality", version=1, content_digest=content_digest, reads_lineage=True)
def quality_report(config: QualityReportConfig, out: Out) -> QualityReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: an output lacks a file, or scores are of other documents.
    """
    from steps.report import quality_gather
    from steps.report.gather_data import gather_labels
    from steps.report.quality_samples import quality_samples
    from steps.report.quality_sections import sections
    from steps.report.stage_page import write_stage_page

    shower = Shower.of(config.cards, config.characters)
    spread = quality_gather.spread(config.scores)
    values: dict[str, Any] = {
        "format": "report/quality/1",
        "spread": spread,
        "gate": config.gate and quality_gather.gate(config.gate),
        "classifier": recorded_result(config.classifier),
        "calibration": quality_gather.calibration(config.classifier),
        "labels": config.labels and gather_labels(config.labels),
        "to_label": config.next_labels and quality_gather.to_label(config.next_labels, shower, config.next_shown),
        "withheld_sources": [source.name for source in config.sources if shower.withheld(source.name)],
        "samples": quality_samples(config.sources, config.scores, shower, per_band=config.samples_per_band, seed=config.seed),
    }  # fmt: skip
    types = f"content types: {', '.join(spread['bins'])}"
    lead = f"{spread['documents']:,} documents, scored by a student of labels that were read. It finds these {types}."
    inputs = [config.scores, config.classifier]
    inputs += [path for path in (config.labels, config.gate, config.next_labels) if path is not None]
    inputs += [source.path for source in config.sources]
    page_bytes = write_stage_page(out, config.title, lead, values, sections(values), inputs)
    shown = [*values["samples"], *(values["to_label"]["shown"] if values["to_label"] is not None else [])]
    return QualityReportResult(
        page="index.html",
        documents=spread["documents"],
        shown=sum(not each["passage"]["withheld"] for each in shown),
        page_bytes=page_bytes,
    )
