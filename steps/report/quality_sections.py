"""Lays the values of the quality page out in sections: the scores, and how far they can be believed."""

from typing import Any

from markupsafe import Markup

from steps.quality.calibration import EDGES
from steps.report import formats
from steps.report.blocks import Block, Chart, Column, Facts, Section, Table, Words, shades
from steps.report.charts import Axis, Series, line_chart
from steps.report.quality_reading import labels_section, samples_section, to_label_section

_PREDICTORS = {
    "student": "the student",
    "hashed_ngrams": "hashed n-grams alone",
    "source_mean": "the source's mean",
    "length": "the text's length",
}
_FIGURES = {
    "spearman": "Spearman",
    "spearman_within_type": "within content types",
    "spearman_within_source": "within sources",
    "auc": "AUC",
}
_STYLES = ("hero", "rung-0", "rung-1", "rung-2", "rung-3", "forecast")
_MOST_SOURCES = 40
"""Rows of a table of sources; all are in report.json."""


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    found = [_spread(values["spread"])]
    found += [_gate(values["gate"])] if values["gate"] is not None else []
    found += [_student(values["classifier"]), _calibration(values["calibration"])]
    found += [labels_section(values["labels"])] if values["labels"] is not None else []
    found += [to_label_section(values["to_label"])] if values["to_label"] is not None else []
    return [*found, samples_section(values)]


def _estimate(value: dict[str, float]) -> str:
    return f"{value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]".replace("-", formats.MINUS)


def _spread(values: dict[str, Any]) -> Section:
    charts = [Chart(name, _histogram(name, bins), f"{sum(bins):,} documents.") for name, bins in values["bins"].items()]
    result = values["result"] or {}
    tables = []
    for axis, counts in (("content type", values["buckets_by_type"]), ("source", values["buckets_by_source"])):
        key = "type" if axis == "content type" else "source"
        means, spreads = (result.get(f"{name}_by_{key}", {}) for name in ("mean", "spread"))
        if key == "source":
            spreads = result.get("spread_within_types_by_source", {})
        rows = [[name, sum(row), *row, means.get(name), spreads.get(name)] for name, row in counts.items()]
        columns = [
            *(Column(axis), Column("documents", "count"), *(Column(f"bucket {b}", "count") for b in range(5))),
            *(Column("mean score", "short"), Column("spread" if key == "type" else "spread in types", "short")),
        ]
        rows.sort(key=lambda row: (-row[1], row[0]))
        table = Table(f"Documents by {axis}.", columns, rows, shades=shades(rows, range(2, 7)), most_rows=_MOST_SOURCES)
        tables.append(table)
    said = []
    if values["result"] is not None and result["several_windows"]:
        several = f"{result['several_windows']:,} documents were read through three windows"
        said = [Words([f"{several}; {result['uneven']:,} of them have two that are two buckets or more apart."])]
    lead = "Scores from 0 to 1; buckets are fifths, 0 the worst. The content type is the one that the student finds."
    return Section("spread", "Scores", lead, [*charts, *said, *tables])


def _histogram(name: str, bins: list[int]) -> Markup:
    edges = [place / len(bins) for place in range(len(bins) + 1)]
    steps = [(x, float(count)) for at, count in enumerate(bins) for x in (edges[at], edges[at + 1])]
    top = float(max(bins, default=0) or 1)
    marks = [Series(name=f"edge {edge}", style="quiet", points=[(edge, 0.0), (edge, top)]) for edge in EDGES]
    return line_chart(
        [*marks, Series(name="documents", style="hero", points=steps)],
        title=f"Documents by score: {name}",
        x=Axis(label="score", format=formats.short, low=0.0, high=1.0),
        y=Axis(label="documents", format=formats.short, low=0.0, high=1.06 * top),
    )


def _gate(values: dict[str, Any]) -> Section:
    unjudged = values["unjudged_sources"]
    shares = values["spread_within_types_by_source"]
    rows = [
        [name, shares[name], unjudged.get(name, "judged"), values["moved_by_source"].get(name)]
        for name in sorted(shares, key=lambda name: (shares[name], name))
    ]
    table = Table(
        "Sources, those with the least spread within content types first.",
        [Column("source"), Column("spread", "short"), Column("judged, or why not"), Column("documents moved", "count")],
        rows,
        most_rows=_MOST_SOURCES,
    )
    words = (
        f"{values['judged']:,} of {values['documents']:,} documents keep their bucket. Not judged: {', '.join(unjudged)}."
        if unjudged
        else f"All {values['documents']:,} documents keep their bucket: in every source the score chooses."
    )
    lead = (
        "Where scores hardly differ within content types, buckets would be drawn by the last digits of a number: all of such a "
        "source go to one bucket."
    )
    return Section("gate", "Where the score chooses", lead, [Words([words]), table])


def _student(result: dict[str, Any] | None) -> Section:
    title = "Against labels that it had not seen"
    if result is None:
        return Section("student", title, "", [Words(["No record of quality/classifier: not known."])])
    predictors = Table(
        "Agreement with held-out labels, with 95 % bootstrap intervals; the student beside its baselines.",
        [Column("predictor"), *(Column(label, "figure") for label in _FIGURES.values())],
        [
            [label, *(_estimate(result[name][figure]) for figure in _FIGURES)]
            for name, label in _PREDICTORS.items()
            if name in result
        ],
    )
    within = [
        Table(
            f"The student's Spearman within each {axis} with ten labels or more.",
            [Column(axis), Column("Spearman", "figure")],
            [[name, _estimate(value)] for name, value in result[f"spearman_by_{key}"].items()],
        )
        for axis, key in (("content type", "type"), ("source", "source"))
    ]
    facts = [
        ("labelled documents", formats.count(result["labelled"]), f"{result['groups']:,} groups of near-duplicates"),
        ("content type found", formats.percent(result["content_type_accuracy"]), "held out"),
        ("gain over length", _estimate(result["gain_within_source"]), "Spearman within sources, paired"),
        ("gain over n-grams", _estimate(result["gain_over_hashed_ngrams"]), "likewise"),
    ]
    lead = "Each labelled document was predicted by a student that saw neither it nor a near-duplicate of it."
    return Section("student", title, lead, [Words([result["verdict"]]), Facts(facts), predictors, *within])


def _calibration(values: dict[str, Any]) -> Section:
    heights = (0.0, *EDGES, 1.0)
    curves = line_chart(
        [
            Series(
                name=name, style=_STYLES[at % len(_STYLES)], points=list(zip(knots, heights, strict=True)), label=name
            )
            for at, (name, knots) in enumerate(values["curves"].items())
        ],
        title="Calibration curves by content type",
        x=Axis(label="raw prediction, on the labels' scale", format=formats.short),
        y=Axis(label="score", format=formats.short, low=0.0, high=1.0),
    )
    tenths = values["reliability"]
    band = [
        (row["score"], row["label"] - 2 * (row["error"] or 0), row["label"] + 2 * (row["error"] or 0)) for row in tenths
    ]
    held = line_chart(
        [Series(name="mean label", style="hero", points=[(row["score"], row["label"]) for row in tenths], band=band, marks=True)],
        title="Mean label of held-out documents by score",
        x=Axis(label="score", format=formats.short, low=0.0, high=1.0),
        y=Axis(label="mean label", format=formats.short, low=1.0, high=5.0),
    )  # fmt: skip
    table = Table(
        "Held-out documents by bucket and label: what a bucket's documents were labelled.",
        [Column("bucket"), *(Column(f"label {level}", "count") for level in range(1, 6))],
        rows := [[str(bucket), *row] for bucket, row in enumerate(values["by_bucket"])],
        shades=shades(rows, range(1, 6)),
    )
    charts: list[Block] = [
        Chart("From raw predictions to scores", curves, "Types without a curve of their own go by “all”."),
        Chart(
            "What a score means", held, "Tenths of the held-out documents; the band is two standard errors either way."
        ),
    ]
    lead = (
        f"{values['held_out']:,} held-out documents. A good score rises with the label, and as far as the label does."
    )
    return Section("calibration", "Calibration", lead, [*charts, table])
