"""report/normalized: how raw texts became documents, source by source, and which languages they are in.

`index.html`, self-contained, and `report.json`, the same values: documents in, dropped and changed, the contract checked once
more over every shard, declared and identified languages, and documents to be read that were dropped, changed, or taken for
another language. A source is a task of its own; memory is that of one shard.
"""

from dataclasses import dataclass
from typing import Annotated

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number, check_sources
from steps.documents import NamedInput
from steps.report.experiment import content_digest
from steps.report.shown import Shower
from steps.sources.cards import SourceCard


@dataclass(frozen=True, kw_only=True)
class NormalizedReportConfig:
    title: str = "Normalised sources"
    normalized: tuple[NamedInput, ...]
    """Output of documents/normalize of each source, in the order of the page."""
    raw: tuple[NamedInput, ...] = ()
    """What each was made from, to show what was changed in a text; sources without are not shown so."""
    languages: InputPath | None = None
    """Output of documents/language on these documents, or on a part of them."""
    cards: tuple[SourceCard, ...]
    """What each source is. Text of a source without one is not shown."""
    samples_per_source: int = 2
    """Documents shown of each source: dropped ones, changed ones, and ones in no declared language."""
    low_score: float = 0.5
    """Languages with a lower probability are counted as doubtful."""
    characters: int = 400
    """Texts are cut to so many."""
    seed: int = 0
    """Of the choice of samples."""

    def __post_init__(self) -> None:
        check_sources(self, "normalized")
        check_number(self, "samples_per_source", low=0)
        check_number(self, "low_score", low=0, high=1)
        check_number(self, "characters", low=1)


@dataclass(frozen=True)
class NormalizedReportResult:
    page: str
    """Below the output."""
    documents_in: int
    documents: int
    sources_broken: tuple[str, ...]
    """Sources that do not keep to the documents contract."""
    page_bytes: Annotated[int, measured]


@kind("report/normalized", version=1, content_digest=content_digest, reads_lineage=True)
def normalized_report(config: NormalizedReportConfig, out: Out) -> NormalizedReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: a source is no output of documents/normalize, or the languages lack one of the sources.
    """
    from steps.report.normalized_sections import sections
    from steps.report.normalized_source import SourceTask, source_facts
    from steps.report.stage_page import write_stage_page

    raw = {source.name: source.path for source in config.raw}
    tasks = {
        source.name: SourceTask(
            name=source.name,
            path=source.path,
            raw=raw.get(source.name),
            languages=config.languages,
            shower=Shower.of(config.cards, config.characters),
            samples=config.samples_per_source,
            low_score=config.low_score,
            seed=config.seed,
        )
        for source in config.normalized
    }
    found = out.map_shards(source_facts, tasks)
    values = {
        "format": "report/normalized/1",
        "low_score": config.low_score,
        "sources": [found[source.name] for source in config.normalized],
    }
    came, stayed = (sum(each[key] for each in values["sources"]) for key in ("documents_in", "documents"))
    lead = f"{came:,} raw texts of {len(tasks):,} sources became {stayed:,} documents."
    inputs = [source.path for source in (*config.normalized, *config.raw)]
    inputs += [config.languages] if config.languages is not None else []
    page_bytes = write_stage_page(out, config.title, lead, values, sections(values), inputs)
    return NormalizedReportResult(
        page="index.html",
        documents_in=came,
        documents=stayed,
        sources_broken=tuple(each["source"] for each in values["sources"] if each["problem"]),
        page_bytes=page_bytes,
    )
