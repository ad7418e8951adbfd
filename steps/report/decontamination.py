"""report/decontamination: which documents hold text of a benchmark or of a held-out document, each beside the item.

`index.html`, self-contained, and `report.json`, the same values: counts by benchmark, source and item, documents beside the
items that they hold, n-grams that were left out as boilerplate, and what another run judges otherwise.
"""

from dataclasses import dataclass
from typing import Annotated

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number
from steps.report.experiment import content_digest
from steps.report.shown import Shower
from steps.sources.cards import SourceCard


@dataclass(frozen=True, kw_only=True)
class DecontaminationReportConfig:
    title: str = "Decontamination"
    contaminated: InputPath
    """Output of decontaminate/ngrams."""
    comparison: InputPath | None = None
    """Output of decontaminate/compare, to show which documents another run judges otherwise."""
    cards: tuple[SourceCard, ...]
    """What each source is. Text of a source without one is not shown, nor that of a benchmark "heldout-<source>"."""
    samples_per_benchmark: int = 5
    """Contaminated documents shown of each benchmark."""
    items_shown: int = 100
    """Of the items met, so many are listed: those of which a document has most."""
    dropped_shown: int = 100
    """Of the n-grams left out, so many are listed: those in most documents."""
    changes_shown: int = 200
    """Of the comparison's documents, so many are listed."""
    characters: int = 1_200
    """Texts are cut to so many."""

    def __post_init__(self) -> None:
        check_number(self, "samples_per_benchmark", "items_shown", "dropped_shown", "changes_shown", low=0)
        check_number(self, "characters", low=1)


@dataclass(frozen=True)
class DecontaminationReportResult:
    page: str
    """Below the output."""
    documents_flagged: int
    samples_shown: int
    """A document that is flagged for two benchmarks may be shown under both."""
    samples_withheld: int
    """Those of sources whose text is not shown."""
    page_bytes: Annotated[int, measured]


@kind("report/decontamination", version=1, content_digest=content_digest, reads_lineage=True)
def decontamination_report(config: DecontaminationReportConfig, out: Out) -> DecontaminationReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: an input lacks a file that the page shows.
    """
    from steps.report.decontamination_sections import sections
    from steps.report.decontamination_values import gather
    from steps.report.stage_page import write_stage_page

    values = gather(config, Shower.of(config.cards, config.characters))
    flagged = sum(each["flagged"] for each in values["sources"])
    lead = (
        f"{flagged:,} of {sum(each['documents'] for each in values['sources']):,} documents hold text of a benchmark or of a "
        f"held-out document: {values['items_met']:,} texts of {len(values['benchmarks']):,} benchmarks were met in them."
    )
    inputs = [config.contaminated, *([] if config.comparison is None else [config.comparison])]
    page_bytes = write_stage_page(out, config.title, lead, values, sections(values), inputs)
    samples = [each for members in values["samples"].values() for each in members]
    return DecontaminationReportResult(
        page="index.html",
        documents_flagged=flagged,
        samples_shown=sum(not each["withheld"] for each in samples),
        samples_withheld=sum(bool(each["withheld"]) for each in samples),
        page_bytes=page_bytes,
    )
