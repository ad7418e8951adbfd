"""report/data_diet: what a model is fed, on one page: the funnel, source x topic x quality as available and as trained on,
documents to be read, what was removed and why, benchmarks met, and what is known of each source.

    index.html    self-contained, readable without scripts
    report.json   the same values
    ids/XX.js     every document's fate, for the search by id

Counts are exact, from the ledgers of the steps. Text is sampled by seeded hashes of ids, cut and masked; text of a source
whose card says so is withheld, and so is that of a source without a card.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number, check_sources
from steps.documents import NamedInput, read_table
from steps.mix.judgements import KEPT
from steps.report.experiment import content_digest
from steps.report.outputs import read_json
from steps.report.shown import Shower
from steps.sources.cards import SourceCard


@dataclass(frozen=True, kw_only=True)
class DataDietConfig:
    title: str = "Data diet"
    sources: tuple[NamedInput, ...]
    """Normalised documents data sets, in the order of the page."""
    cards: tuple[SourceCard, ...]
    """What each source is. Text of a source without one is not shown."""
    cells: InputPath
    """Output of mix/cells."""
    topics: InputPath
    """Output of cluster/topics."""
    fuzzy: InputPath
    """Output of dedup/fuzzy."""
    heuristics: InputPath
    """Output of quality/heuristics."""
    contaminated: InputPath
    """Output of decontaminate/ngrams."""
    tokens: InputPath
    """Token store of the cells."""
    mixture: InputPath
    """Output of mix/weights."""
    samples_per_cell: int = 2
    """Kept documents shown of each cell."""
    most_cells: int = 100
    """Only of so many cells, those with most tokens, are documents shown."""
    samples_per_reason: int = 2
    """Removed documents shown of each rule and benchmark; of near duplicates ten times as many."""
    characters: int = 500
    """Texts are cut to so many."""
    most_searched: int = 2_000_000
    """With more documents than these there is no search by id."""
    seed: int = 0
    """Of the choice of samples and windows."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "samples_per_cell", "most_cells", "samples_per_reason", "most_searched", low=0)
        check_number(self, "characters", low=1)


@dataclass(frozen=True)
class DataDietResult:
    page: str
    """Below the output."""
    documents_in: int
    documents_kept: int
    tokens_available: int
    tokens_trained: int
    """In the largest run, repeats included."""
    withheld_sources: tuple[str, ...]
    """Sources whose text the page does not show."""
    page_bytes: Annotated[int, measured]
    """Commits are on the page, so its size may differ between equal runs."""


@kind("report/data_diet", version=2, content_digest=content_digest, reads_lineage=True)
def data_diet(config: DataDietConfig, out: Out) -> DataDietResult:
    """Writes the page, its twin and the side files of its search.

    Raises:
        StepFailed: an output lacks a file, or the token store is not that of the cells.
    """
    from steps.report import diet_counts, diet_files, diet_sections
    from steps.report.stage_page import write_stage_page

    shower = Shower.of(config.cards, config.characters)
    out.progress("reading ledgers")
    diet = diet_counts.read_diet(config.cells, config.tokens, config.mixture)
    cube = diet_counts.cube(diet)
    values: dict[str, Any] = {
        "format": "report/data_diet/1",
        "funnel": diet_counts.funnel(diet, config.sources, config.cells),
        "by_source": diet_counts.by_source(diet, config.sources),
        "topics": read_json(f"{config.topics}/topics.json")["topics"],
        "cube": cube,
        "budget_tokens": diet.budget_tokens,
        "phase_starts": list(diet.mixture.phase_starts),
        "rounded_to_zero": list(diet.mixture.rounded_to_zero),
        "sources": [_source_row(name, shower) for name in (source.name for source in config.sources)],
        "documents_in": diet.ledger.num_rows,
        "searchable": diet.ledger.num_rows <= config.most_searched,
    }
    out.progress("choosing documents")
    values |= _samples(config, shower, cube)
    if values["searchable"]:
        out.progress("writing the search's files")
        diet_files.write_shelves(out, diet.ledger, [source.name for source in config.sources])
    sections = diet_sections.sections(values)
    inputs = [
        config.cells,
        config.topics,
        config.fuzzy,
        config.heuristics,
        config.contaminated,
        config.tokens,
        config.mixture,
    ]
    inputs += [source.path for source in config.sources]
    kept = diet.ledger.filter(pc.field("fate") == KEPT).num_rows
    lead = diet_sections.lead(values, kept)
    page_bytes = write_stage_page(out, config.title, lead, values, sections, inputs)
    return DataDietResult(
        page="index.html",
        documents_in=diet.ledger.num_rows,
        documents_kept=kept,
        tokens_available=sum(row["tokens"] for row in cube),
        tokens_trained=round(sum(sum(row["trained_tokens"]) for row in cube)),
        withheld_sources=tuple(each["source"] for each in values["sources"] if each["withheld"]),
        page_bytes=page_bytes,
    )


def _source_row(name: str, shower: Shower) -> dict[str, Any]:
    card = shower.cards.get(name)
    known = {"kind": "", "languages": [], "origin": "", "licence": "unknown", "limits": "no card"}
    if card is not None:
        known = {
            "kind": card.kind,
            "languages": list(card.languages),
            "origin": card.origin,
            "licence": card.licence,
            "limits": card.limits,
        }
    return {"source": name, **known, "withheld": shower.withheld(name)}


def _samples(config: DataDietConfig, shower: Shower, cube: list[dict[str, Any]]) -> dict[str, Any]:
    from steps.report import removed_samples
    from steps.report.cell_samples import cell_samples

    tokens: dict[str, int] = {}
    for row in cube:
        tokens[row["cell"]] = tokens.get(row["cell"], 0) + row["tokens"]
    largest = sorted(tokens, key=lambda cell: (-tokens[cell], cell))
    hits = read_table(config.contaminated, "hits_by_item.parquet")
    documents = hits.group_by("benchmark").aggregate([("item", "count"), ("documents", "max")])
    return {
        "cells": len(largest),
        "cell_samples": cell_samples(
            f"{config.cells}/cells",
            largest[: config.most_cells],
            shower,
            count=config.samples_per_cell,
            seed=config.seed,
        ),
        "near_duplicates": removed_samples.near_duplicates(
            config.fuzzy, shower, verdict="removed", per_source=config.samples_per_reason
        ),
        "near_duplicates_removed": read_table(config.cells, "ledger.parquet", ["fate"])
        .filter(pc.field("fate") == "fuzzy_duplicate")
        .num_rows,
        "rule_samples": removed_samples.by_rule(config.heuristics, shower, config.samples_per_reason),
        "contaminated_samples": removed_samples.contaminated(config.contaminated, shower, config.samples_per_reason),
        "contaminated_by_benchmark": read_json(f"{config.contaminated}/counts.json")["contaminated_by_benchmark"],
        "items_hit": _by_name(documents),
    }


def _by_name(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["benchmark"].to_pylist(), table["item_count"].to_pylist(), strict=True))
