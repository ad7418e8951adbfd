"""Lays the decontamination page's values out in sections."""

from typing import Any

from steps.report import formats
from steps.report.blocks import Block, Column, Facts, Samples, Section, Table, Words, link, shown_of
from steps.report.diet_sections import contaminated_sample


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    return [
        _counts(values),
        _samples(values),
        _items(values),
        _dropped(values),
        _sources(values),
        *([] if values["comparison"] is None else [_comparison(values["comparison"])]),
    ]


def _place(benchmark: str, values: dict[str, Any]) -> str:
    return f"hits-{list(values['samples']).index(benchmark)}"


def _counts(values: dict[str, Any]) -> Section:
    benchmarks = Table(
        "Benchmarks; a document with hits of two counts under both. Those with documents to be read are links.",
        [
            *(Column("benchmark"), Column("texts", "count"), Column("without a feature", "count")),
            *(Column("features", "count"), Column("texts met", "count"), Column("documents", "count")),
        ],
        [
            [
                link(each["benchmark"], _place(each["benchmark"], values))
                if each["benchmark"] in values["samples"]
                else each["benchmark"],
                *(each[key] for key in ("records", "records_without_features", "features", "items_met", "flagged")),
            ]
            for each in sorted(values["benchmarks"], key=lambda each: (-each["flagged"], each["benchmark"]))
        ],
    )
    empty = sum(each["records_without_features"] for each in values["benchmarks"])
    facts = Facts(
        [
            ("benchmarks and held-out sets", formats.count(len(values["benchmarks"])), ""),
            ("texts of items", formats.count(sum(each["records"] for each in values["benchmarks"])), ""),
            ("texts too short to be looked for", formats.count(empty), ""),
            ("n-grams looked for", formats.count(values["features"]), ""),
            ("n-grams left out everywhere", formats.count(values["dropped_everywhere"]), "boilerplate"),
        ]
    )
    rule = [Words([_rule(values["settings"])])] if values["settings"] else []
    return Section("counts", "Counts", "", [facts, *rule, benchmarks])


def _rule(settings: dict[str, str]) -> str:
    overlap = formats.whole_percent(float(settings["thresholds.overlap"]))
    coverage = settings["thresholds.item_coverage"]
    whole = f", or {formats.whole_percent(float(coverage))} of an item's anywhere in it" if coverage != "None" else ""
    return (
        f"A document is flagged if at least {overlap} of a paragraph's {settings['ngram_words']}-word n-grams are a "
        f"benchmark's{whole}, and at least {settings['thresholds.min_hits']} different ones where there are several."
    )


def _samples(values: dict[str, Any]) -> Section:
    flagged = {each["benchmark"]: each["flagged"] for each in values["benchmarks"]}
    blocks: list[Block] = [
        Samples(
            [contaminated_sample(each) for each in members],
            shown_of(len(members), flagged[benchmark], "documents"),
            title=benchmark,
            id=_place(benchmark, values),
        )
        for benchmark, members in values["samples"].items()
    ]
    lead = (
        "The paragraph that gave a document away, beside the item; what both share is underlined. Documents are chosen by "
        "seeded hashes of their ids."
    )
    return Section("hits", "Documents and items", lead, blocks or [Words(["No document was flagged."])])


def _items(values: dict[str, Any]) -> Section:
    table = Table(
        "Items met, those of which a document has most first.",
        [
            *(Column("benchmark"), Column("item"), Column("documents", "count")),
            *(Column("most n-grams in one", "count"), Column("most of it in one", "whole_percent")),
        ],
        [
            [item[key] for key in ("benchmark", "item", "documents", "most_hits", "best_coverage")]
            for item in values["items"]
        ],
    )
    said = shown_of(len(values["items"]), values["items_met"], "items")
    return Section("items", "Items met", said, [table])


def _dropped(values: dict[str, Any]) -> Section:
    def named(names: list[str], total: int) -> str:
        return ", ".join(names) + (f" and {total - len(names):,} more" if total > len(names) else "")

    table = Table(
        "N-grams left out, those in most documents first. Words are folded as they are compared.",
        [
            *(Column("n-gram"), Column("left out"), Column("documents", "count"), Column("met in")),
            *(Column("of", "text"), Column("texts that have it", "count")),
        ],
        [
            [
                row["withheld"] or row["text"],
                "everywhere" if row["everywhere"] else "where it is frequent",
                row["documents"],
                named([f"{name} {count:,}" for name, count in row["sources"].items()], row["num_sources"]),
                named(row["benchmarks"], row["num_benchmarks"]),
                row["records"],
            ]
            for row in values["dropped"]
        ],
    )
    said = shown_of(len(values["dropped"]), values["num_dropped"], "n-grams")
    lead = "What is in many documents of several sources is no sign that a benchmark leaked: licences, signatures, set phrases."
    return Section("dropped", "Left out as boilerplate", " ".join(each for each in (lead, said) if each), [table])


def _sources(values: dict[str, Any]) -> Section:
    table = Table(
        "Sources with most flagged documents first.",
        [
            *(Column("source"), Column("documents", "count"), Column("flagged", "count"), Column("share", "percent")),
            *(Column("themselves held out", "count"), Column("n-grams left out", "count"), Column("text on this page")),
        ],
        [
            [
                *(each["source"], each["documents"], each["flagged"]),
                each["flagged"] / each["documents"] if each["documents"] else None,
                *(each["skipped"], each["features_dropped"], each["withheld"] or "shown"),
            ]
            for each in sorted(values["sources"], key=lambda each: (-each["flagged"], each["source"]))
        ],
    )
    lead = "Held-out documents are no hits of themselves: they leave by the held-out table."
    return Section("sources", "Sources", lead, [table])


def _comparison(comparison: dict[str, Any]) -> Section:
    changes = ", ".join(f"{count:,} {change}" for change, count in comparison["by_change"].items())
    table = Table(
        "Documents by source and id.",
        [Column("document"), Column("source"), Column("change"), Column("before"), Column("after")],
        [
            [row["id"], row["source"], row["change"], row["benchmark_before"], row["benchmark_after"]]
            for row in comparison["rows"]
        ],
    )
    said = shown_of(len(comparison["rows"]), comparison["documents"], "documents")
    lead = f"{comparison['documents']:,} documents are judged otherwise by the other run{f': {changes}' if changes else ''}."
    return Section("comparison", "Another run", " ".join(each for each in (lead, said) if each), [table])
