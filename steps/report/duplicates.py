"""report/duplicates: what fuzzy deduplication removed, each removed text beside the one that was kept for it.

`index.html`, self-contained, and `report.json`, the same values. They show the audit table of dedup/fuzzy, its clusters, its
curve, and what only just stayed, by which a threshold is judged.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

from marin_exec import InputPath, Out, kind, measured
from steps.config_checks import check_number
from steps.documents import read_table
from steps.report import formats
from steps.report.blocks import Chart, Column, Facts, Sample, Samples, Section, Table, Words, shown_of
from steps.report.charts import Axis, Series, line_chart
from steps.report.diet_sections import pair_sample
from steps.report.experiment import content_digest
from steps.report.outputs import recorded_result
from steps.report.removed_samples import near_duplicates
from steps.report.shown import Shower
from steps.sources.cards import SourceCard

_SIZES = ((2, 2), (3, 4), (5, 8), (9, 16), (17, 64), (65, 256), (257, 1024), (1025, None))


@dataclass(frozen=True, kw_only=True)
class DuplicatesReportConfig:
    title: str = "Near duplicates"
    fuzzy: InputPath
    """Output of dedup/fuzzy."""
    cards: tuple[SourceCard, ...]
    """What each source is. Text of a source without one is not shown."""
    pairs_per_source: int = 5
    """Pairs shown of each source, of the removed ones and of those that only just stayed."""
    largest_clusters: int = 10
    """Of the largest clusters so many are described."""
    characters: int = 600
    """Texts are cut to so many."""

    def __post_init__(self) -> None:
        check_number(self, "pairs_per_source", "largest_clusters", low=0)
        check_number(self, "characters", low=1)


@dataclass(frozen=True)
class DuplicatesReportResult:
    page: str
    """Below the output."""
    pairs: int
    """Pairs shown."""
    clusters: int
    page_bytes: Annotated[int, measured]


@kind("report/duplicates", version=1, content_digest=content_digest, reads_lineage=True)
def duplicates_report(config: DuplicatesReportConfig, out: Out) -> DuplicatesReportResult:
    """Writes the page and its twin.

    Raises:
        StepFailed: the output of dedup/fuzzy lacks a table.
    """
    from steps.report.stage_page import write_stage_page

    shower = Shower.of(config.cards, config.characters)
    clusters = _clusters(config.fuzzy)
    audit = Counter(read_table(config.fuzzy, "audit.parquet", ["verdict"])["verdict"].to_pylist())
    values: dict[str, Any] = {
        "format": "report/duplicates/1",
        "result": recorded_result(config.fuzzy),
        "clusters": len(clusters),
        "removed": sum(each["removed"] for each in clusters),
        "cluster_sizes": _sizes(clusters),
        "largest": sorted(clusters, key=lambda each: (-each["documents"], each["cluster"]))[: config.largest_clusters],
        "audited": dict(audit),
        "pairs": near_duplicates(config.fuzzy, shower, verdict="removed", per_source=config.pairs_per_source),
        "nearly": near_duplicates(config.fuzzy, shower, verdict="kept", per_source=config.pairs_per_source),
    }
    lead = (
        f"{values['removed']:,} documents of {values['clusters']:,} clusters were removed. Bands propose clusters; "
        f"a document goes only if a kept one holds most of its word n-grams."
    )
    page_bytes = write_stage_page(out, config.title, lead, values, _sections(values), [config.fuzzy])
    return DuplicatesReportResult(
        page="index.html",
        pairs=len(values["pairs"]) + len(values["nearly"]),
        clusters=len(clusters),
        page_bytes=page_bytes,
    )


def _clusters(fuzzy: str) -> list[dict[str, Any]]:
    columns = ["cluster_id", "source", "removed", "kept_id", "containment"]
    rows = read_table(fuzzy, "clusters.parquet", columns).sort_by("cluster_id").to_pylist()
    clusters = []
    for name, group in groupby(rows, key=lambda row: row["cluster_id"]):
        members = list(group)
        holders = Counter(row["kept_id"] for row in members if row["removed"])
        clusters.append(
            {
                "cluster": name,
                "documents": len(members),
                "removed": sum(holders.values()),
                "holders": len(holders),
                "most_held_by_one": max(holders.values(), default=0),
                "least_containment": min((row["containment"] for row in members if row["removed"]), default=None),
                "sources": dict(Counter(row["source"] for row in members).most_common(5)),
            }
        )
    return clusters


def in_words(cluster: dict[str, Any]) -> str:
    """Returns how a cluster hangs together: a star about one text, several stars, or a chain that holds nothing."""
    stay = cluster["documents"] - cluster["removed"]
    if not cluster["removed"]:
        return f"Linked by shared bands only: none holds enough of another, so all {stay:,} stay."
    if cluster["holders"] == 1:
        rest = "" if stay == 1 else f"; {stay - 1:,} more stay"
        return f"A star: one kept text holds {cluster['removed']:,} others{rest}."
    return (
        f"{cluster['holders']:,} stars: {cluster['holders']:,} kept texts hold {cluster['removed']:,} others, the largest "
        f"{cluster['most_held_by_one']:,}; {stay:,} stay."
    )


def _sizes(clusters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for low, high in _SIZES:
        inside = [each for each in clusters if each["documents"] >= low and (high is None or each["documents"] <= high)]
        rows.append(
            {
                "size": f"{low:,}" if low == high else f"{low:,} to {high:,}" if high else f"{low:,} and more",
                "clusters": len(inside),
                "documents": sum(each["documents"] for each in inside),
                "removed": sum(each["removed"] for each in inside),
            }
        )
    return rows


def _sections(values: dict[str, Any]) -> list[Section]:
    result = values["result"]
    return [
        *([] if result is None else [_counts(result)]),
        _pairs("removed", "Removed, beside what was kept", values["pairs"], values["removed"], "removed documents"),
        _pairs("nearly", "Only just stayed", values["nearly"], values["audited"].get("kept", 0), "pairs of the audit table"),
        Section(
            "clusters",
            "Clusters",
            "Documents that share a band are candidates and form a cluster.",
            [
                Table(
                    "Clusters by size.",
                    [Column("documents in it"), *(Column(name, "count") for name in ("clusters", "documents", "removed"))],
                    [list(row.values()) for row in values["cluster_sizes"]],
                ),
                Table(
                    "The largest.",
                    [
                        *(Column("cluster"), Column("documents", "count"), Column("least containment", "percent")),
                        *(Column("sources"), Column("structure")),
                    ],
                    [
                        [row["cluster"], row["documents"], row["least_containment"], _listed(row["sources"]), in_words(row)]
                        for row in values["largest"]
                    ],
                ),
            ],
        ),
    ]  # fmt: skip


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _counts(result: dict[str, Any]) -> Section:
    names = {
        "documents_in": "documents", "exact_duplicates": "left out: exact duplicates", "no_words": "left out: no words",
        "truncated": "signed by their beginning", "candidate_pairs": "candidate links", "removed": "removed",
        "exempt": "stay: exempt source", "bounded": "stay: cluster too large to compare all",
    }  # fmt: skip
    rows = [(label, formats.count(result[name]), "") for name, label in names.items() if name in result]
    came, gone = result["documents_in_by_source"], result["removed_by_source"]
    sources = Table(
        "Removed by source, most first.",
        [Column("source"), Column("documents", "count"), Column("removed", "count"), Column("share", "percent")],
        [
            [name, count, gone.get(name, 0), gone.get(name, 0) / count if count else None]
            for name, count in sorted(came.items(), key=lambda each: -gone.get(each[0], 0))
        ],
    )
    said = [f"Alarm: {each}" for each in result["alarms"]] + [f"Warning: {each}" for each in result["warnings"]]
    curve = line_chart(
        [Series(name="chance", style="hero", points=[(float(x), y) for x, y in result["s_curve"].items()], marks=True)],
        title="Chance that two documents become candidates, by their Jaccard similarity",
        x=Axis(label="Jaccard similarity of word shingles", format=formats.short, low=0.5, high=0.9),
        y=Axis(label="chance", format=formats.whole_percent, low=0.0, high=1.0),
    )
    chart = Chart("Candidates", curve, "What bands and rows find: the chance that a pair is looked at.")
    return Section(
        "counts", "Counts", "", [Facts(rows), Words(said or ["No source is above the alarm."]), sources, chart]
    )


def _pairs(name: str, title: str, pairs: list[dict[str, Any]], total: int, what: str) -> Section:
    samples: list[Sample] = [pair_sample(pair) for pair in pairs]
    lead = "Words that differ are underlined. Excerpts begin a little before the place where the two texts part."
    return Section(name, title, lead, [Samples(samples, shown_of(len(samples), total, what))])
