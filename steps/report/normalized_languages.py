"""The languages section of the page of normalised sources: declared and identified ones, and what is taken for what."""

from collections import Counter
from typing import Any

from steps.language.language import UNDETERMINED
from steps.report import formats
from steps.report.blocks import Block, Column, Passage, Sample, Samples, Section, Table, shades, shown_of, window

_MOST_TAKEN_FOR = 3


def languages_section(sources: list[dict[str, Any]], low_score: float) -> Section:
    """Returns the section.

    Args:
        sources: from `source_facts`, each with languages.
        low_score: below it a language counts as doubtful.
    """
    lead = (
        "Declared is what a source's card says, identified what documents/language found in each text. Undetermined are texts in "
        "which no language is likeliest, such as tables and code."
    )
    blocks: list[Block] = [_confusion(sources), _by_source(sources, low_score), _identified(sources), _samples(sources)]
    return Section("languages", "Languages", lead, blocks)


def _by_source(sources: list[dict[str, Any]], low_score: float) -> Table:
    return Table(
        "Languages by source.",
        [
            *(
                Column("source"),
                Column("declared"),
                Column("documents", "count"),
                Column("in a declared one", "percent"),
            ),
            *(Column("in another", "percent"), Column("undetermined", "percent")),
            *(Column(f"score below {low_score:g}", "percent"), Column("mean score", "short")),
            Column("others, most first"),
        ],
        [_source_row(each["source"], each["languages"]) for each in sources],
    )


def _source_row(source: str, found: dict[str, Any]) -> list[Any]:
    counts, declared, total = Counter(found["identified"]), found["declared"], max(1, found["documents"])
    others = _others(found)
    return [
        *(source, ", ".join(declared) or None, found["documents"]),
        sum(counts[name] for name in declared) / total if declared else None,
        others.total() / total if declared else None,
        *(counts[UNDETERMINED] / total, found["low_scores"] / total, found["mean_score"], _most(others)),
    ]


def _others(found: dict[str, Any]) -> Counter[str]:
    """Documents by language that is no declared one."""
    return Counter({k: v for k, v in found["identified"].items() if k not in (*found["declared"], UNDETERMINED)})


def _most(others: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in others.most_common(_MOST_TAKEN_FOR))


def _confusion(sources: list[dict[str, Any]]) -> Table:
    found: dict[str, Counter[str]] = {}
    for each in (source["languages"] for source in sources):
        if len(each["declared"]) == 1:
            found.setdefault(each["declared"][0], Counter()).update(each["identified"])
    rows = []
    for declared, counts in sorted(found.items()):
        others, total = _others({"identified": counts, "declared": [declared]}), max(1, counts.total())
        shares = [number / total for number in (counts[declared], others.total(), counts[UNDETERMINED])]
        rows.append([declared, counts.total(), *shares, _most(others)])
    return Table(
        "Of sources that declare one language: what their documents are taken for. Shades go by the square root.",
        [
            *(Column("declared"), Column("documents", "count"), Column("as declared", "percent")),
            *(Column("another", "percent"), Column("undetermined", "percent"), Column("most often taken for")),
        ],
        rows,
        shades=shades(rows, range(3, 5)),
    )


def _identified(sources: list[dict[str, Any]]) -> Table:
    counts = sum((Counter(each["languages"]["identified"]) for each in sources), Counter())
    return Table(
        "Languages identified, over all sources.",
        [Column("language"), Column("documents", "count"), Column("share", "percent")],
        [[name, count, count / counts.total()] for name, count in counts.most_common()],
    )


def _samples(sources: list[dict[str, Any]]) -> Samples:
    samples = [
        Sample(
            f"Taken for {member['language']}, with a probability of {formats.whole_percent(member['score'])}; declared: "
            f"{', '.join(each['languages']['declared'])}",
            [each["source"]],
            [passage_of(each["source"], member)],
        )
        for each in sources
        for member in each["languages"]["samples"]
    ]
    total = sum(_others(each["languages"]).total() for each in sources if each["languages"]["declared"])
    said = shown_of(len(samples), total, "documents in no declared language")
    return Samples(samples, said, title="Taken for another language", id="other-language")


def passage_of(source: str, member: dict[str, Any]) -> Passage:
    """Returns the text of a sample, and where it is from."""
    passage = member["passage"]
    where = " · ".join(part for part in (source, member.get("source_id", ""), member["id"]) if part)
    segments = [(passage["text"], False)] if passage["text"] else []
    return Passage("", where, segments, passage["withheld"], window(passage))
