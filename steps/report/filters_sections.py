"""Lays the filters page's values out: a section a family of rules, so that many rules stay a short list of contents."""

from typing import Any

from steps.report import formats
from steps.report.blocks import Block, Chart, Column, Passage, Sample, Samples, Section, Table, link, shown_of, window
from steps.report.charts import Axis, Series, line_chart

_EMPTY = 0.5  # where an empty bin is drawn: most scores lie at one end, so counts are on a log scale, which has no 0
_FAMILIES = (
    ("repetition", "Repetition", ("gopher_duplicate_", "gopher_top_", "repeated_")),
    ("words", "Words and lines", ("gopher_",)),
    ("c4", "C4", ("c4_",)),
    ("fineweb", "FineWeb", ("fineweb_",)),
    ("code", "Code", ("code_",)),
    ("other", "Data, markup, mail", ("",)),
)
"""(id, title, beginnings of the rules' names); a rule is of the first family that it fits."""


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    found = [(each, [row for row in values["rules"] if _family(row["rule"]) == each[0]]) for each in _FAMILIES]
    families = [_rules(*family[:2], rows, values) for family, rows in found if rows]
    return [_counts(values), *families, _groups(values)]


def _family(rule: str) -> str:
    return next(name for name, _, beginnings in _FAMILIES if rule.startswith(beginnings))


def _counts(values: dict[str, Any]) -> Section:
    titles = {name: title for name, title, _ in _FAMILIES}
    rules = Table(
        "Removed by rule.",
        [
            *(Column("rule"), Column("family"), Column("removed", "count"), Column("by it alone", "count")),
            Column("limits", "figure"),
        ],
        [
            [
                *(link(row["rule"], f"rule-{row['rule']}"), titles[_family(row["rule"])], row["removed"], row["alone"]),
                ", ".join(f"{limit:g}" for limit in row["limits"]),
            ]
            for row in values["rules"]
        ],
    )
    lead = "By it alone: what would come back without the rule. Limits differ by kind of text and language."
    return Section("counts", "Counts", lead, [rules])


def _groups(values: dict[str, Any]) -> Section:
    counted = [Column("documents", "count"), Column("removed", "count"), Column("share", "percent")]
    groups = [
        Table(
            f"Removed by {name}.",
            [Column(name), *counted],
            [
                [row[name], row["documents"], row["removed"], row["removed"] / row["documents"]]
                for row in sorted(rows, key=lambda row: -row["removed"])
            ],
        )
        for name, rows in values["by"].items()
    ]
    return Section("groups", "Sources and languages", "", [*groups])


def _rules(name: str, title: str, rows: list[dict[str, Any]], values: dict[str, Any]) -> Section:
    charts: list[Block] = [
        Chart(row["rule"], _drawn(row["rule"], values["histograms"][row["rule"]]), "End bins hold all beyond.")
        for row in rows
        if row["rule"] in values["histograms"]
    ]
    samples = [
        Samples(
            [_sample(each) for each in members],
            shown_of(len(members), row["removed"], "documents with this reason"),
            title=row["rule"],
            id=f"rule-{row['rule']}",
        )
        for row in rows
        for members in [values["samples"].get(row["rule"], [])]
    ]
    lead = (
        "Lines stand at the limits that removed most; an empty bin lies on the axis. Below, documents with each reason."
    )
    return Section(name, title, lead, [*charts, *samples])


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
