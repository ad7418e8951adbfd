"""Lays the values of the topics page out in sections."""

from typing import Any

from marin_exec.wording import some_of
from steps.report import formats
from steps.report.blocks import Block, Column, Facts, Samples, Section, Table, Views, Words, shades, shown_of
from steps.report.sample_passages import sample_block

MOST_COLUMNS = 40
"""Of the table of sources and topics; the others are added up in one."""
_UNSTABLE = 0.5
"""A topic whose best match under another seed shares less than half of it."""
_MOST_NAMED = 12
_HARDLY_TOLD = 0.4
"""Twice what guessing gives."""


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    found = [_topics(values), _trust(values), _merging(values), _sources(values)]
    if values["embedding"] is not None:
        found.append(_embedding(values["embedding"]))
    return [*found, _samples(values)]


def _topics(values: dict[str, Any]) -> Section:
    rows = [
        [
            *(f"{row['topic']} {row['name']}", ", ".join(row["terms"]), row["documents"], row["share"], row["bytes"]),
            *(row["documents_kept"], row["clusters"], row["source"], row["purity"], row["stability"], row["intruder_score"]),
        ]
        for row in values["topics"]
    ]  # fmt: skip
    columns = [
        *(Column("topic"), Column("terms"), Column("documents", "count"), Column("share", "percent")),
        *(Column("bytes", "size"), Column("kept", "count"), Column("clusters", "count"), Column("commonest source")),
        *(
            Column("of it", "whole_percent"),
            Column("stability", "whole_percent"),
            Column("intruder told", "whole_percent"),
        ),
    ]
    lead = "Terms set a topic apart from the others. Names are their first terms, and made by no one who read the documents."
    words = (
        f"Alarms: {'; '.join(values['trust']['alarms'])}." if values["trust"]["alarms"] else "No topic is too large."
    )
    blocks: list[Block] = [Words([words]), Table("Topics, most documents first.", columns, rows)]
    return Section("topics", "Topics", lead, blocks)


def _trust(values: dict[str, Any]) -> Section:
    trust = values["trust"]
    facts = [
        ("in the commonest source", formats.percent(trust["purity"]), "of documents, topic by topic: 100 % repeats the sources"),
        ("intruder told", formats.percent(trust["intruders_by_size"]), "mean over topics, weighted by documents"),
    ]  # fmt: skip
    if intruders := trust["intruders"]:
        error = formats.percent(intruders["standard_error"])
        note = f"± {error}, of questions put by size; guessing gives {formats.percent(intruders['chance'])}"
        facts[1] = ("intruder told", formats.percent(intruders["score"]), note)
    if stability := trust["stability"]:
        seeds = f"adjusted Rand index over {stability['seeds']} seeds; 1 is equal, 0 chance"
        facts += [
            ("stability of topics", formats.short(stability["topic_rand"]), seeds),
            ("stability of clusters", formats.short(stability["cluster_rand"]), "likewise"),
            (
                "information shared",
                formats.short(stability["topic_information"]),
                "between topics of two seeds, 0 to 1",
            ),
        ]
    else:
        facts.append(("stability", "not measured", "no further seeds, or no record of the step"))
    if sources := trust["sources"]:
        facts.append(
            ("topics tell the source", formats.short(sources["topic_information"]), "mutual information, 0 to 1")
        )
    lead = (
        "Stability: how much of a topic another seed finds again (Jaccard index with its best match). Intruder: of five "
        "documents one is of another topic; told by their words alone, which made no topic."
    )
    return Section("trust", "Can they be trusted", lead, [Facts(facts), Words(doubtful(values["topics"]))])


def doubtful(rows: list[dict[str, Any]]) -> list[str]:
    """Returns which topics to read before they are used, in words."""
    told = [
        ("Another seed finds less than half of", "stability", _UNSTABLE),
        ("Intruders are told hardly better than by guessing in", "intruder_score", _HARDLY_TOLD),
    ]
    found = []
    for words, key, limit in told:
        below = sorted((row for row in rows if row[key] is not None and row[key] < limit), key=lambda row: row[key])
        if below:
            share = formats.percent(sum(row["share"] for row in below))
            named = some_of([f"{row['name']} ({row[key]:.2f})" for row in below], _MOST_NAMED)
            found.append(f"{words} {len(below)} of {len(rows)} topics, {share} of the documents: {named}.")
    asked = any(row[key] is not None for row in rows for _, key, _ in told)
    return found or ["No topic is below these marks." if asked else "Neither was measured."]


def _merging(values: dict[str, Any]) -> Section:
    trust, topics = values["trust"], values["topics"]
    names = {row["topic"]: row["name"] for row in topics}
    least = min(topics, key=lambda row: (row["sample_share"], row["topic"]))
    clusters = sum(row["clusters"] for row in topics)
    words = [
        f"{clusters:,} clusters were divided, always the widest group first, until there were {len(topics):,} topics; then single "
        f"clusters moved to where they fit better."
    ]
    if floor := trust["config"].get("min_topic_fraction"):
        at = [row["name"] for row in topics if row["sample_share"] < 1.2 * float(floor)]
        near = f"At it, within a fifth: {', '.join(at)}." if at else "None is within a fifth of it."
        words.append(
            f"The floor is {formats.percent(float(floor))} of the sample; the smallest topic, {least['name']}, has "
            f"{formats.percent(least['sample_share'])}. {near}"
        )
    left, rows = len(topics), []
    for merger in values["mergers"]:
        left -= 1
        pair = f"{names[merger['first']]} with {names[merger['second']]}"
        rows.append([f"{left:,}", pair, merger["cosine"], merger["share"], merger["lost"]])
    table = Table(
        "If there were fewer topics: which become one, nearest first. A merged group goes by its larger topic's name.",
        [
            *(
                Column("topics left"),
                Column("become one"),
                Column("cosine", "short"),
                Column("of the sample", "percent"),
            ),
            Column("tightness lost", "percent"),
        ],
        rows,
        most_rows=20,
    )
    return Section("merging", "From clusters to topics", "", [Words(words), table])


def _sources(values: dict[str, Any]) -> Section:
    totals: dict[str, int] = {}
    for row in values["topics"]:
        for source, count in row["documents_by_source"].items():
            totals[source] = totals.get(source, 0) + count
    sources = sorted(totals, key=lambda name: (-totals[name], name))
    topics = [f"{row['topic']} {row['name']}" for row in values["topics"]]
    counts = [[row["documents_by_source"].get(name, 0) for name in sources] for row in values["topics"]]
    turned = [[row[place] for row in counts] for place in range(len(sources))]
    views = Views(
        "axis",
        ("topics", "sources"),
        (_crossed("topic", topics, sources, counts), _crossed("source", sources, topics, turned)),
    )
    lead = "All documents that came in, exactly; shades go by the square root."
    return Section("sources", "Sources and topics", lead, [views])


def _crossed(axis: str, labels: list[str], others: list[str], counts: list[list[int]]) -> Table:
    shown, rest = others[:MOST_COLUMNS], others[MOST_COLUMNS:]
    columns = [Column(axis), Column("all", "count"), *(Column(name, "count") for name in shown)]
    columns += [Column(f"{len(rest)} others", "count")] if rest else []
    rows: list[list[Any]] = []
    for label, row in zip(labels, counts, strict=True):
        last = [sum(row[MOST_COLUMNS:])] if rest else []
        rows.append([label, sum(row), *row[:MOST_COLUMNS], *last])
    total = ["all", *(sum(row[place] for row in rows) for place in range(1, len(columns)))]
    return Table(f"Documents by {axis}.", columns, rows, total, shades(rows, range(2, 2 + len(shown))))


def _embedding(values: dict[str, Any]) -> Section:
    result = values["result"]
    facts = []
    if result is not None:
        facts = [
            ("dimensions", formats.count(result["dimensions"]), ""),
            ("int8 scale", formats.short(result["scale"]), "what a stored entry is multiplied by"),
            ("clipped", f"{100 * result['clipped_fraction']:.4f} %", "of entries; above 0.1 % the range is too small"),
            ("cosine with the int8 form", formats.short(result["mean_cosine"]), f"mean; the least {result['min_cosine']:.4f}"),
        ]  # fmt: skip
    table = Table(
        "The encoder.", [Column("field"), Column("value")], [list(each) for each in values["encoder"].items()]
    )
    said = [] if result is not None else [Words(["No record of the step that made the vectors."])]
    return Section("embedding", "Vectors", "What topics are made from.", [Facts(facts), *said, table])


def _samples(values: dict[str, Any]) -> Section:
    rows = {row["name"]: row for row in values["topics"]}
    samples = [
        sample_block(
            each, f"One of {rows[name]['documents']:,} documents, {formats.percent(rows[name]['share'])}", [name]
        )
        for name, members in values["samples"].items()
        for each in members
    ]
    said = f"documents, from {sum(map(bool, values['samples'].values()))} of {len(rows)} topics"
    lead = "Beginnings of documents of each topic, largest first, chosen by seeded hashes of their ids."
    total = sum(row["documents"] for row in values["topics"])
    return Section("documents", "Documents", lead, [Samples(samples, shown_of(len(samples), total, said))])
