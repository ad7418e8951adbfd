"""Lays the data-diet page's values out in sections."""

from typing import Any

from steps.report import formats
from steps.report.blocks import (
    Column,
    Passage,
    Sample,
    Samples,
    Search,
    Section,
    Table,
    Views,
    Words,
    shades,
    shown_of,
    window,
)
from steps.report.diet_counts import by_axis
from steps.report.gather_data import STAGE_LABELS

_QUALITY = [f"quality {bucket}" for bucket in range(5)]


def lead(values: dict[str, Any], kept: int) -> str:
    """Returns the page in one sentence."""
    available = sum(row["tokens"] for row in values["cube"])
    return (
        f"{values['documents_in']:,} documents came in and {kept:,} stayed, {formats.tokens(available)} tokens of "
        f"{len(values['by_source'])} sources in {values['cells']:,} cells. The largest run trains on "
        f"{formats.tokens(values['budget_tokens'])} tokens."
    )


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    return [
        _funnel(values),
        _cube(values),
        _samples(values),
        _removed(values),
        _benchmarks(values),
        _sources(values),
        _search(values),
    ]


def _funnel(values: dict[str, Any]) -> Section:
    def tokens(row: dict[str, Any]) -> str:
        return ("≈ " if row["tokens_estimated"] else "") + formats.tokens(row["tokens"])

    first = next(row["bytes"] for row in values["funnel"])
    table = Table(
        caption="What is left after each stage.",
        columns=[
            Column("stage"),
            Column("documents", "count"),
            Column("bytes", "size"),
            Column("tokens", "figure"),
            Column("share of bytes", "percent"),
        ],
        rows=[
            [
                row["stage"],
                row["documents"],
                row["bytes"],
                tokens(row),
                row["bytes"] / first if row["bytes"] is not None and first else None,
            ]
            for row in values["funnel"]
        ],
    )
    note = (
        "Counts are exact. ≈: what was removed was never tokenised; its tokens are estimated from its bytes, at the kept "
        "documents' bytes a token."
    )
    fates = list(STAGE_LABELS)
    by_source = Table(
        caption="Documents by source: what removed them.",
        columns=[
            Column("source"),
            Column("came in", "count"),
            *(Column(STAGE_LABELS[fate], "count") for fate in fates),
            Column("kept", "count"),
            Column("kept", "percent"),
            Column("tokens kept", "tokens"),
        ],
        rows=[_source_counts(row, fates) for row in values["by_source"]],
    )
    return Section("funnel", "Funnel", note, [table, by_source])


def _source_counts(row: dict[str, Any], fates: list[str]) -> list[Any]:
    def documents(fate: str) -> int:
        return row["fates"].get(fate, {}).get("documents", 0)

    came = sum(each["documents"] for each in row["fates"].values())
    kept = documents("kept")
    tokens = row["fates"].get("kept", {}).get("tokens", 0)
    return [row["source"], came, *map(documents, fates), kept, kept / came if came else None, tokens]


def _cube(values: dict[str, Any]) -> Section:
    topics = {topic["topic"]: topic for topic in values["topics"]}
    phases = [f"from {start:.0%}" for start in values["phase_starts"]]
    tables = tuple(_axis(values["cube"], axis, topics, phases) for axis in ("topic", "source"))
    terms = Table(
        caption="Topics and the terms that set them apart.",
        columns=[Column("topic"), Column("terms"), Column("documents that came in", "count")],
        rows=[
            [f"{topic['topic']} {topic['name']}", ", ".join(topic["terms"]), topic["documents"]]
            for topic in sorted(topics.values(), key=lambda each: -each["documents"])
        ],
    )
    zero = values["rounded_to_zero"]
    none = f"Rounded to zero in some phase: {', '.join(zero)}." if zero else "No component was rounded to zero."
    lead = (
        "Tokens available by quality bucket (0 worst, 4 best), and tokens trained on by phase of the largest run, which "
        "are the available ones times the epochs. Every row of source, topic and bucket is in report.json."
    )
    views = Views("axis", ("topics", "sources"), (tables[0], tables[1]))
    by_size = sorted(values["cube"], key=lambda row: (-row["tokens"], row["source"], row["cell"]))
    full = Table(
        caption="Each source, topic and quality bucket, most tokens first.",
        columns=[
            *(Column("source"), Column("topic"), Column("quality", "count")),
            *(Column("documents", "count"), Column("available", "tokens")),
            *(Column(f"epochs {phase}", "short") for phase in phases),
            Column("trained", "tokens"),
        ],
        rows=[
            [
                *(row["source"], topics[row["topic"]]["name"], row["bucket"], row["documents"], row["tokens"]),
                *row["epochs"],
                sum(row["trained_tokens"]),
            ]
            for row in by_size
        ],
        most_rows=40,
    )
    return Section("cube", "Sources, topics, quality", lead, [views, Words([none]), full, terms])


def _axis(cube: list[dict[str, Any]], axis: str, topics: dict[int, Any], phases: list[str]) -> Table:
    rows = []
    for row in by_axis(cube, axis):
        trained = sum(row["trained"])
        name = f"{row[axis]} {topics[row[axis]]['name']}" if axis == "topic" else row[axis]
        rows.append(
            [
                name,
                *row["buckets"],
                row["tokens"],
                *row["trained"],
                trained,
                trained / row["tokens"] if row["tokens"] else None,
            ]
        )
    columns = [Column(axis), *(Column(name, "tokens") for name in _QUALITY), Column("available", "tokens")]
    columns += [Column(f"trained {phase}", "tokens") for phase in phases]
    columns += [Column("trained", "tokens"), Column("epochs", "short")]
    total = ["all", *(sum(float(row[c] or 0) for row in rows) for c in range(1, len(columns) - 1)), None]
    return Table(
        caption=f"Tokens by {axis}; shades go by the square root.", columns=columns, rows=rows, total=total,
        shades=shades(rows, range(1, 6)),
    )  # fmt: skip


def _where(values: dict[str, Any], sample: dict[str, Any]) -> str:
    licence = next((each["licence"] for each in values["sources"] if each["source"] == sample["source"]), "unknown")
    name = f": {sample['source_id']}" if sample.get("source_id") else ""
    return f"{sample['source']}{name} · {sample['id']} · licence {licence}"


def _samples(values: dict[str, Any]) -> Section:
    topics = {topic["topic"]: topic["name"] for topic in values["topics"]}
    of_cell: dict[str, tuple[str, int, int]] = {}
    for row in values["cube"]:
        _, documents, tokens = of_cell.get(row["cell"], ("", 0, 0))
        title = f"{topics.get(row['topic'], row['topic'])}, quality {row['bucket']}"
        of_cell[row["cell"]] = (title, documents + row["documents"], tokens + row["tokens"])
    samples = []
    for cell, members in values["cell_samples"].items():
        title, documents, tokens = of_cell[cell]
        for member in members:
            passage = _shown(values, member, "")
            samples.append(
                Sample(f"{title}: one of {documents:,} documents, {formats.tokens(tokens)} tokens", [cell], [passage])
            )
    documents = sum(documents for _, documents, _ in of_cell.values())
    said = shown_of(
        len(samples), documents, f"kept documents, from {len(values['cell_samples'])} of {len(of_cell):,} cells"
    )
    lead = "Kept documents of each cell, chosen by seeded hashes of their ids; of a long one a window that the same hash places."
    return Section("samples", "Documents", lead, [Samples(samples, said)])


def _shown(values: dict[str, Any], sample: dict[str, Any], heading: str) -> Passage:
    passage = sample["passage"]
    return Passage(heading, _where(values, sample), [(passage["text"], False)], passage["withheld"], window(passage))


def pair_sample(pair: dict[str, Any]) -> Sample:
    """Returns a near-duplicate beside the document it was compared with."""
    novel = f"; new words: {', '.join(pair['novel_words'][:20])}" if pair["novel_words"] else ""
    why = (
        f"{pair['containment']:.1%} of its {pair['num_words']:,} words' n-grams are in the kept document of "
        f"{pair['kept_num_words']:,} words (Jaccard {pair['jaccard']:.2f}); "
        f"{pair['num_novel_words']:,} words are in it alone{novel}"
    )
    sides = (("document", "this document", "source", "id"), ("kept", "kept", "kept_source", "kept_id"))
    passages = [
        Passage(
            heading,
            f"{pair[source]} · {pair[key]}",
            pair["segments"][side],
            pair["withheld"][side],
            "an excerpt from where the two part",
        )
        for side, heading, source, key in sides
    ]
    return Sample(why, [pair["source"]], passages)


def contaminated_sample(each: dict[str, Any]) -> Sample:
    """Returns a contaminated document's paragraph beside the item it overlaps."""
    why = (
        f"{each['max_overlap']:.0%} of a paragraph and {each['coverage']:.0%} of the item {each['example']} are shared "
        f"({each['num_hits']} hits)"
    )
    headings = {"paragraph": "paragraph of the document", "item": "item of the benchmark"}
    name = f": {each['source_id']}" if each["source_id"] else ""
    wheres = {"paragraph": f"{each['source']}{name} · {each['id']}", "item": each["example"]}
    passages = [
        Passage(
            headings[side],
            wheres[side],
            each["segments"].get(side, []),
            each["withheld"],
            "a part of it" if each["cut"][side] else "",
        )
        for side in headings
    ]
    return Sample(why, each["benchmarks"], passages)


def _removed(values: dict[str, Any]) -> Section:
    pairs = [pair_sample(pair) for pair in values["near_duplicates"]]
    seen: set[str] = set()
    rules = []
    for rule, members in values["rule_samples"].items():
        for member in members:
            if member["id"] not in seen:
                seen.add(member["id"])
                rules.append(Sample(member["reasons"], [rule], [_shown(values, member, "")]))
    dropped = sum(row["fates"].get("heuristics", {}).get("documents", 0) for row in values["by_source"])
    return Section(
        "removed",
        "Removed, and why",
        "Near duplicates stand beside the document that was kept for them, words that differ underlined. Below, documents that "
        "broke a rule.",
        [
            Samples(pairs, shown_of(len(pairs), values["near_duplicates_removed"], "near duplicates")),
            Samples(rules, shown_of(len(rules), dropped, "documents that broke a rule first")),
        ],
    )


def _benchmarks(values: dict[str, Any]) -> Section:
    counts = values["contaminated_by_benchmark"]
    table = Table(
        caption="Contaminated documents by benchmark; a document with hits of two counts under both.",
        columns=[Column("benchmark"), Column("documents", "count"), Column("items met", "count")],
        rows=[
            [name, n, values["items_hit"].get(name, 0)]
            for name, n in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
            if n
        ],
    )
    clean = sum(not n for n in counts.values())
    samples = [contaminated_sample(each) for members in values["contaminated_samples"].values() for each in members]
    found = sum(counts.values())
    lead = f"{len(counts)} benchmarks and held-out sets were looked for; {clean} were met in no document."
    return Section(
        "benchmarks", "Benchmarks met", lead, [table, Samples(samples, shown_of(len(samples), found, "hits"))]
    )


def _sources(values: dict[str, Any]) -> Section:
    table = Table(
        caption="Cards.",
        columns=[
            Column(name) for name in ("source", "kind", "languages", "origin", "licence", "limits", "text on this page")
        ],
        rows=[
            [
                each["source"],
                each["kind"],
                ", ".join(each["languages"]),
                each["origin"],
                each["licence"],
                each["limits"],
                each["withheld"] or "shown",
            ]
            for each in values["sources"]
        ],
    )
    return Section(
        "sources", "Sources", "What each source is, and what somebody who trains on it should know.", [table]
    )


def _search(values: dict[str, Any]) -> Section:
    if not values["searchable"]:
        text = (
            f"{values['documents_in']:,} documents are too many to be looked up here; ledger.parquet of the cells step has "
            f"them all."
        )
        return Section("search", "Find a document", "", [Words([text])])
    return Section("search", "Find a document", "", [Search(values["documents_in"])])
