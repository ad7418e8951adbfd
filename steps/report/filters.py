"""report/filters: what the limits of quality/heuristics remove, and how each score is spread about its limits.

`index.html`, self-contained, and `report.json`, the same values. Limits are read from the reasons in the table: so they are
those that were applied, with what a language changed. A rule that removed nothing is not drawn.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number
from steps.documents import join_dense, read_table, shard_names
from steps.report import formats
from steps.report.blocks import Chart, Column, Passage, Sample, Samples, Section, Table, shown_of, window
from steps.report.charts import Axis, Series, line_chart
from steps.report.experiment import content_digest
from steps.report.outputs import read_json
from steps.report.removed_samples import by_rule
from steps.report.shown import Shower
from steps.sources.cards import SourceCard

_BINS, _MOST_LIMITS = 40, 3
_EMPTY = 0.5  # where an empty bin is drawn: most scores lie at one end, so counts are on a log scale, which has no 0


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


@kind("report/filters", version=1, content_digest=content_digest, reads_lineage=True)
def filters_report(config: FiltersReportConfig, out: Out) -> FiltersReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: a table or a JSON file is not there, or the languages are not those of the judged documents.
    """
    from steps.report.stage_page import write_stage_page

    rules: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    limits: dict[str, Counter[float]] = defaultdict(Counter)
    groups = {"source": defaultdict(lambda: [0, 0]), "language": defaultdict(lambda: [0, 0])}
    scores: dict[str, list[np.ndarray]] = defaultdict(list)
    for source in read_json(f"{config.heuristics}/quantiles.json")["scores"]:
        for shard in shard_names(f"{config.heuristics}/{source}"):
            table = _shard(config, source, shard)
            for row in table.select(["reasons", "language"]).to_pylist():
                broken = [reason.split(": ", 1) for reason in row["reasons"].split(", ") if reason]
                rules.update(rule for rule, _ in broken)
                alone.update(rule for rule, _ in broken if len(broken) == 1)
                for rule, comparison in broken:
                    limits[rule][float(comparison.split()[-1])] += 1
                for name, key in (("source", source), ("language", row["language"])):
                    groups[name][key][0] += 1
                    groups[name][key][1] += bool(broken)
            for name in set(table.column_names) - {"id", "keep", "reasons", "language", "language_score"}:
                if pa.types.is_floating(table[name].type) or pa.types.is_integer(table[name].type):
                    scores[name].append(table[name].to_numpy())
    total, removed = (sum(counts[at] for counts in groups["source"].values()) for at in (0, 1))
    values: dict[str, Any] = {
        "format": "report/filters/1",
        "documents": total,
        "removed": removed,
        "rules": [
            {"rule": rule, "removed": count, "alone": alone[rule], "limits": sorted(limits[rule])}
            for rule, count in rules.most_common()
        ],
        "histograms": {
            rule: _histogram(np.concatenate(scores[rule]), [limit for limit, _ in limits[rule].most_common(_MOST_LIMITS)])
            for rule, _ in rules.most_common()
            if rule in scores
        },
        "by": {
            name: [{name: key, "documents": counts[0], "removed": counts[1]} for key, counts in sorted(group.items())]
            for name, group in groups.items()
            if name == "source" or config.languages is not None
        },
        "samples": by_rule(config.heuristics, Shower.of(config.cards, config.characters), config.samples_per_rule),
    }  # fmt: skip
    lead = f"{removed:,} of {total:,} documents break a limit. One with several reasons counts under each rule."
    inputs = [path for path in (config.heuristics, config.heuristic_scores, config.languages) if path is not None]
    page_bytes = write_stage_page(out, config.title, lead, values, _sections(values), inputs)
    return FiltersReportResult(page="index.html", documents=total, removed=removed, page_bytes=page_bytes)


def _shard(config: FiltersReportConfig, source: str, shard: str) -> pa.Table:
    table = read_table(f"{config.heuristics}/{source}", shard)
    if config.heuristic_scores is not None:
        where = f"{config.heuristic_scores}/{source}"
        table = join_dense(table, read_table(where, shard), f"{where}/{shard}")
    if config.languages is None:
        return table.append_column("language", pa.array([""] * len(table), pa.string()))
    where = f"{config.languages}/{source}"
    return join_dense(table, read_table(where, shard, ["id", "language"]), f"{where}/{shard}")


def _histogram(values: np.ndarray, limits: list[float]) -> dict[str, Any]:
    """Counts in equal bins from the 1st to the 99th percentile and past the limits; the end bins hold all beyond."""
    values = values[np.isfinite(values)].astype(float)
    low, high = (float(f([*limits, *np.quantile(values, (0.01, 0.99))])) for f in (min, max))
    high = high if high > low else low + 1.0
    counts, edges = np.histogram(np.clip(values, low, high), bins=_BINS, range=(low, high))
    return {"limits": limits, "edges": [round(float(edge), 6) for edge in edges], "counts": counts.tolist()}


def _sections(values: dict[str, Any]) -> list[Section]:
    counted = [Column("documents", "count"), Column("removed", "count"), Column("share", "percent")]
    rules = Table(
        "Removed by rule.",
        [Column("rule"), Column("removed", "count"), Column("by it alone", "count"), Column("limits")],
        [[*list(row.values())[:3], ", ".join(f"{limit:g}" for limit in row["limits"])] for row in values["rules"]],
    )
    groups = [
        Table(
            f"Removed by {name}.",
            [Column(name), *counted],
            [[row[name], row["documents"], row["removed"], row["removed"] / row["documents"]] for row in rows],
        )
        for name, rows in values["by"].items()
    ]
    charts = [
        Chart(rule, _drawn(rule, each), "End bins hold all beyond.") for rule, each in values["histograms"].items()
    ]
    removed = {row["rule"]: row["removed"] for row in values["rules"]}
    samples = [
        Section(f"rule-{rule}", rule, "", [Samples([_sample(each) for each in members],
                shown_of(len(members), removed.get(rule, 0), "documents with this reason"))])
        for rule, members in values["samples"].items()
    ]  # fmt: skip
    lead = "By it alone: what would come back without the rule. Limits differ by kind of text and language."
    return [
        Section("counts", "Counts", lead, [rules, *groups]),
        Section(
            "scores",
            "Scores and limits",
            "Lines stand at the limits that removed most. An empty bin lies on the axis.",
            [*charts],
        ),
        *samples,
    ]


def _drawn(rule: str, histogram: dict[str, Any]) -> Any:
    edges, counts = histogram["edges"], histogram["counts"]
    steps = [(x, max(float(count), _EMPTY)) for at, count in enumerate(counts) for x in (edges[at], edges[at + 1])]
    top = float(max(counts, default=0) or 1)
    lines = [Series(name=f"limit {each:g}", style="forecast", points=[(each, _EMPTY), (each, top)], label=f"{each:g}")
             for each in histogram["limits"]]  # fmt: skip
    return line_chart(
        [Series(name="documents", style="hero", points=steps), *lines],
        title=f"Documents by {rule}",
        x=Axis(label=rule, format=formats.short, low=edges[0], high=edges[-1]),
        y=Axis(label="documents", format=formats.short, low=_EMPTY, log=True),
    )


def _sample(each: dict[str, Any]) -> Sample:
    passage = each["passage"]
    where = " · ".join(part for part in (each["source"], each["source_id"], each["id"]) if part)
    segments = [(passage["text"], False)] if passage["text"] else []
    return Sample(each["reasons"], [], [Passage("Removed", where, segments, passage["withheld"], window(passage))])
