"""report/topics: what the topics are, how much they hold, whether they can be trusted, and documents of each to be read.

`index.html`, self-contained, and `report.json`, the same values.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number
from steps.report.experiment import content_digest
from steps.report.shown import Shower
from steps.sources.cards import SourceCard


@dataclass(frozen=True, kw_only=True)
class TopicsReportConfig:
    title: str = "Topics"
    topics: InputPath
    """Output of cluster/topics."""
    embeddings: InputPath | None = None
    """Output of the embed/documents that they were made from, for what is known of the encoder."""
    cells: InputPath | None = None
    """Output of mix/cells, for bytes and for what is kept of each topic."""
    cards: tuple[SourceCard, ...]
    """What each source is. Text of a source without one is not shown."""
    samples_per_topic: int = 3
    """Documents shown of each of the `most_topics` largest topics."""
    most_topics: int = 100
    """Topics of which documents are shown."""
    characters: int = 400
    """Texts are cut to so many; the step keeps the first 600."""

    def __post_init__(self) -> None:
        check_number(self, "samples_per_topic", "most_topics", low=0)
        check_number(self, "characters", low=1)


@dataclass(frozen=True)
class TopicsReportResult:
    page: str
    """Below the output."""
    topics: int
    documents: int
    page_bytes: Annotated[int, measured]


@kind("report/topics", version=1, content_digest=content_digest, reads_lineage=True)
def topics_report(config: TopicsReportConfig, out: Out) -> TopicsReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: the output of cluster/topics or mix/cells lacks a file.
    """
    from steps.report import topics_gather
    from steps.report.stage_page import write_stage_page
    from steps.report.topics_sections import sections

    rows = topics_gather.topic_rows(config.topics, config.cells)
    names = [row["name"] for row in rows[: config.most_topics]]
    shower = Shower.of(config.cards, config.characters)
    values: dict[str, Any] = {
        "format": "report/topics/1",
        "topics": rows,
        "trust": topics_gather.trust(config.topics, rows),
        "mergers": topics_gather.mergers(config.topics),
        "embedding": topics_gather.embedding(config.embeddings) if config.embeddings is not None else None,
        "samples": topics_gather.topic_samples(config.topics, names, shower, config.samples_per_topic),
    }
    documents = sum(row["documents"] for row in rows)
    lead = (
        f"{documents:,} documents in {len(rows):,} topics, merged from {sum(row['clusters'] for row in rows):,} clusters of their "
        f"vectors; the largest holds {rows[0]['share']:.1%}."
    )
    inputs = [path for path in (config.topics, config.embeddings, config.cells) if path is not None]
    page_bytes = write_stage_page(out, config.title, lead, values, sections(values), inputs)
    return TopicsReportResult(page="index.html", topics=len(rows), documents=documents, page_bytes=page_bytes)
