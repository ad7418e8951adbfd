"""Lays out the page of normalised sources in sections."""

from typing import Any

from steps.report import formats
from steps.report.blocks import Column, Facts, Passage, Sample, Samples, Section, Table, shown_of, window
from steps.report.normalized_languages import languages_section, passage_of
from steps.report.normalized_source import CHANGES, REASONS


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    sources = values["sources"]
    return [
        _counts(sources),
        *(
            []
            if any(each["languages"] is None for each in sources)
            else [languages_section(sources, values["low_score"])]
        ),
        _removed(sources),
        _changed(sources),
        _cards(sources),
    ]


def _counts(sources: list[dict[str, Any]]) -> Section:
    columns = [
        *(Column("source"), Column("came in", "count"), Column("bytes", "size")),
        *(Column(label, "count") for label in REASONS.values()),
        *(Column("documents", "count"), Column("bytes", "size")),
        *(Column(label, "count") for label in CHANGES.values()),
        *(Column("shards", "count"), Column("contract")),
    ]
    rows = [
        [
            *(each[key] for key in ("source", "documents_in", "bytes_in")),
            *(each["removed"][reason] for reason in REASONS),
            *(each[key] for key in ("documents", "bytes")),
            *(each["changed"][name] for name in CHANGES),
            *(each["shards"], each["problem"] or "holds"),
        ]
        for each in sources
    ]
    total = ["all", *(_sum([row[column] for row in rows]) for column in range(1, len(columns) - 1)), ""]
    broken = sum(bool(each["problem"]) for each in sources)
    facts = Facts(
        [
            ("came in", formats.count(total[1]), ""),
            *((f"dropped: {label}", formats.count(total[3 + at]), "") for at, label in enumerate(REASONS.values())),
            ("documents", formats.count(total[5]), ""),
            ("changes to texts", formats.count(_sum([value for value in total[7:11] if value is not None])), ""),
            ("sources that break the contract", formats.count(broken), ""),
        ]
    )
    lead = (
        "Contract: ids sorted and unique over all shards, each that of its text; no nulls, no blank texts, UTF-8. Copies are equal "
        "texts of one source; those of other sources are found by dedup/exact."
    )
    return Section("counts", "Counts", lead, [facts, Table("Texts by source.", columns, rows, total=total)])


def _sum(values: list[Any]) -> int | None:
    return None if any(value is None for value in values) else sum(values)


def _removed(sources: list[dict[str, Any]]) -> Section:
    samples = []
    for each in sources:
        for member in each["removed_samples"]:
            named = f": {', '.join(member['names'])}" if member["names"] else ""
            kept = f" The one that stayed is {member['kept']}." if member["kept"] else ""
            plural = "copy was" if member["copies"] == 1 else "copies were"
            samples.append(
                Sample(
                    f"{member['copies']:,} {plural} dropped{named}.{kept}",
                    [each["source"]],
                    [passage_of(each["source"], member)],
                )
            )
    total = sum(each["removed"]["exact_duplicate"] for each in sources)
    said = shown_of(sum(member["copies"] for each in sources for member in each["removed_samples"]), total, "copies")
    blank = sum(each["removed"]["blank"] for each in sources)
    lead = f"{blank:,} texts were dropped for being blank, and have nothing to show. removed.parquet of each source names all."
    return Section("removed", "Dropped copies", lead, [Samples(samples, said)])


def _changed(sources: list[dict[str, Any]]) -> Section:
    samples = [
        Sample(
            f"{', '.join(CHANGES[name] for name in member['changes']).capitalize()}: {member['characters'][0]:,} characters "
            f"before, {member['characters'][1]:,} after",
            [each["source"]],
            [
                Passage(
                    heading,
                    " · ".join(part for part in (each["source"], member["source_id"], member["id"]) if part),
                    member["segments"][side],
                    member["passages"][side]["withheld"],
                    window({**member["passages"][side], "text": ""}),
                )
                for side, heading in (("raw", "as it came"), ("document", "as it is now"))
            ],
        )
        for each in sources
        for member in each["changed_samples"]
    ]  # fmt: skip
    total = sum(value for each in sources for value in each["changed"].values() if value is not None)
    lead = "From a little before the first character that was changed. What differs is underlined, white space apart."
    return Section("changed", "Changed texts", lead, [Samples(samples, shown_of(len(samples), total, "changes"))])


def _cards(sources: list[dict[str, Any]]) -> Section:
    unknown: dict[str, Any] = {"kind": None, "languages": [], "origin": None, "licence": "unknown", "limits": "no card"}
    rows = []
    for each in sources:
        card = each["card"] or unknown
        rows.append(
            [
                *(each["source"], card["kind"], ", ".join(card["languages"]), card["origin"], card["licence"]),
                *(card["limits"], each["withheld"] or "shown"),
            ]
        )
    names = ("source", "kind", "languages", "origin", "licence", "limits", "text on this page")
    lead = "What each source is, and what somebody who trains on it should know."
    return Section("sources", "Sources", lead, [Table("Cards.", [Column(name) for name in names], rows)])
