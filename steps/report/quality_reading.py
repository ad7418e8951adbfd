"""Sections of the quality page that people read: labels, what to label next, and documents by their scores."""

from typing import Any

from steps.report import formats
from steps.report.blocks import Block, Column, Facts, Samples, Section, Table, Words, shown_of
from steps.report.sample_passages import sample_block


def labels_section(values: dict[str, Any]) -> Section:
    """Returns what the student learnt from, and whether readers agree."""
    agreement = values["agreement"]
    facts = [
        ("documents", formats.count(values["documents"]), f"{values['readings']:,} readings"),
        ("readers", formats.count(len(values["readers"])), ", ".join(values["readers"])),
    ]
    if agreement is None:
        facts.append(("agreement of readers", "not measured", "fewer than two documents were read twice"))
    else:
        facts += [
            ("read twice", formats.count(agreement["pairs"]), "documents"),
            ("weighted kappa", formats.short(agreement["weighted_kappa"]), "1 is perfect, 0 chance"),
            (
                "same score",
                formats.percent(agreement["exact"]),
                f"within one: {formats.percent(agreement['within_one'])}",
            ),
            ("same content type", formats.percent(agreement["same_content_type"]), ""),
        ]
    tables: list[Block] = [
        Table(f"Labels by {axis}.", [Column(axis), Column("documents", "count")], [list(row) for row in counts.items()])
        for axis, counts in (("score", values["score_counts"]), ("content type", values["content_type_counts"]))
    ]
    return Section("labels", "Labels", "What the student learnt from.", [Facts(facts), *tables])


def reason(row: dict[str, Any], place: int) -> str:
    """Returns why a document is to be labelled, in words."""
    if row["chosen_by"] == "lot":
        return "Drawn by lot: figures held out on chosen documents alone would be of hard ones."
    return (
        f"Choice {place}: uncertain by {row['uncertainty']:.2f}, lacking labels by {row['coverage']:.2f}, new by "
        f"{row['novelty']:.2f}."
    )


def to_label_section(values: dict[str, Any]) -> Section:
    """Returns what to label next, with reasons."""
    rows = values["rows"]
    counts: list[Block] = [
        Table(
            f"By {axis}.",
            [Column(axis), Column("documents", "count")],
            [list(row) for row in found.items()],
            most_rows=20,
        )
        for axis, found in (("source", values["by_source"]), ("content type", values["by_type"]))
    ]
    samples = [
        sample_block(each, reason(row, place), [row["content_type"]], "an excerpt, as readers see it")
        for place, (row, each) in enumerate(zip(rows, values["shown"], strict=False), start=1)
    ]
    columns = [
        *(
            Column("place"),
            Column("document"),
            Column("source"),
            Column("content type"),
            Column("uncertainty", "short"),
        ),
        *(Column("coverage", "short"), Column("novelty", "short"), Column("by")),
    ]
    keys = ("id", "source", "content_type", "uncertainty", "coverage", "novelty", "chosen_by")
    listed = Table(
        "All of them, in order of choice.",
        columns,
        [[f"{place:,}", *(row[key] for key in keys)] for place, row in enumerate(rows, start=1)],
        most_rows=50,
    )
    result = values["result"]
    said = f"{len(rows):,} documents"
    if result is not None:
        said += (
            f" of {result['candidates']:,} candidates; {result['labelled']:,} have a label. The chosen ones' mean uncertainty is "
            f"{result['mean_uncertainty']:.2f}, of those by lot {result['mean_uncertainty_drawn']:.2f}"
        )
    meanings = Words(
        [
            "Uncertain: standard deviation of a score of 1 to 5 over students fitted on other draws of the labels. Lacking "
            "labels: 1 where neither the source nor the content type has any. New: 1 less the largest cosine with what is "
            "labelled or chosen before. The product decides."
        ]
    )
    shown = Samples(samples, shown_of(len(samples), len(rows), "documents to label"))
    return Section("next", "What to label next", f"{said}.", [meanings, shown, listed, *counts])


def samples_section(values: dict[str, Any]) -> Section:
    """Returns documents of low, middle and high scores."""
    samples = []
    for each in values["samples"]:
        windows = [f"{name} {each[key]:.2f}" for name, key in _windows() if key in each]
        apart = f" ({', '.join(windows)})" if len(set(windows)) > 1 and len({w.split()[1] for w in windows}) > 1 else ""
        why = f"Score {each['score']:.2f}{apart}: {each['band']}, one of {each['of']:,}"
        samples.append(sample_block(each, why, [each["content_type"], each["band"]]))
    lead = "Of each content type, documents of the lowest, the middle and the highest bucket, chosen by seeded hashes of their ids."
    hidden = values["withheld_sources"]
    said = [Words([f"Of {', '.join(hidden)} no text may be shown; none is drawn from there."])] if hidden else []
    total = values["spread"]["documents"]
    return Section(
        "documents", "Documents", lead, [*said, Samples(samples, shown_of(len(samples), total, "documents"))]
    )


def _windows() -> tuple[tuple[str, str], ...]:
    return tuple((name, f"score_{name}") for name in ("begin", "middle", "end"))
