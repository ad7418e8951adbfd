"""report/filters: what the limits of quality/heuristics remove, and how each score is spread about its limits.

`index.html`, self-contained, and `report.json`, the same values. Limits are read from the reasons in the table: so they are
those that were applied, with what a language changed. A rule that removed nothing is not drawn.
"""

from dataclasses import dataclass
from typing import Annotated

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number
from steps.report.experiment import content_digest
from steps.sources.cards import SourceCard


@dataclass(frozen=True, kw_only=True)
class FiltersReportConfig:
    title: str = "Filters"
    heuristics: InputPath
    """Output of quality/heuristics."""
    heuristic_scores: InputPath | None = None
    """Output of quality/heuristic_scores, if the heuristics took their scores from there."""
    languages: InputPath | None = None
    """Output of documents/language, for counts by language."""
    cards: tuple[SourceCard, ...]
    """What each source is. Text of a source without one is not shown."""
    samples_per_rule: int = 5
    characters: int = 600
    """Texts are cut to so many."""

    def __post_init__(self) -> None:
        check_number(self, "samples_per_rule", low=0)
        check_number(self, "characters", low=1)


@dataclass(frozen=True)
class FiltersReportResult:
    page: str
    """Below the output."""
    documents: int
    removed: int
    page_bytes: Annotated[int, measured]


@kind("report/filters", version=2, content_digest=content_digest, reads_lineage=True)
def filters_report(config: FiltersReportConfig, out: Out) -> FiltersReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: a table or a JSON file is not there, or the languages are not those of the judged documents.
    """
    from steps.report.filters_sections import sections
    from steps.report.filters_values import gather
    from steps.report.stage_page import write_stage_page

    values = gather(config)
    total, removed = values["documents"], values["removed"]
    lead = f"{removed:,} of {total:,} documents break a limit. One with several reasons counts under each rule."
    inputs = [path for path in (config.heuristics, config.heuristic_scores, config.languages) if path is not None]
    page_bytes = write_stage_page(out, config.title, lead, values, sections(values), inputs)
    return FiltersReportResult(page="index.html", documents=total, removed=removed, page_bytes=page_bytes)
