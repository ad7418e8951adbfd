"""Sections of a token store: tokenizer, tokens by cell, bytes a token by language and source."""

from typing import Any

from steps.report import formats
from steps.report.blocks import Block, Column, Facts, Section, Table, Words, shades
from steps.report.tokens_gather import place_of

_MOST_CELLS = 40
_COUNTS = (
    Column("documents", "count"),
    Column("tokens", "tokens"),
    Column("bytes", "size"),
    Column("bytes a token", "short"),
)


def tokenizer_section(values: dict[str, Any]) -> Section:
    """Returns which tokenizer it is, what stands at the ends of documents, and whether texts come back."""
    tokenizer, total = values["tokenizer"], values["store"]["total"]
    begin, end = (
        "none" if token is None else f"token {token}" for token in (tokenizer["begin_token"], tokenizer["end_token"])
    )
    facts = [
        ("vocabulary", formats.count(tokenizer["vocabulary_size"]), "tokens"),
        (
            "bytes a token",
            formats.short(total["bytes"] / total["tokens"]),
            "of the whole store, special tokens counted",
        ),
        ("before a document", begin, ""),
        ("after a document", end, ""),
    ]
    said = [f"Revision (xxh3-128 of tokenizer.json): {tokenizer['digest']}."]
    if (result := tokenizer["result"]) and "training_documents" in result:
        size = formats.size(result["training_bytes"])
        said.append(
            f"Trained on {result['training_documents']:,} documents, {size} of text; on text alone "
            f"{result['bytes_per_token']:.3f} bytes a token."
        )
    if result and "normalizer" in result:
        named = result["normalizer"]
        said.append(
            "It changes no text." if named is None else f"Normaliser {named}: texts that it changes are refused."
        )
    if (tried := values["round_trip"]) is not None:
        said.append(
            f"Tried for this page on {tried['documents']:,} documents of the store: {tried['same_text']:,} come back as they went "
            f"in, {tried['same_length']:,} have as many tokens as the store counts."
        )
    config = Table(
        "How it was made.", [Column("field"), Column("value")], [list(each) for each in tokenizer["config"].items()]
    )
    blocks: list[Block] = [Facts(facts), Words(said), *([config] if tokenizer["config"] else [])]
    return Section("tokenizer", "Tokenizer", "", blocks)


def store_section(values: dict[str, Any]) -> Section:
    """Returns tokens by topic and quality, and all cells."""
    store, topics = values["store"], values["topics"]
    cells = store["by_cell"]
    blocks: list[Block] = [
        Facts(
            [
                ("tokens", formats.tokens(store["total"]["tokens"]), ""),
                ("documents", formats.count(store["total"]["documents"]), ""),
                ("text", formats.size(store["total"]["bytes"]), ""),
                ("cells", formats.count(len(cells)), ""),
            ]
        ),
        Words([f"Fingerprint of the store, which the mixture carries too: {values['mixture']['fingerprint']}."]),
    ]
    places = {row["cell"]: place for row in cells if (place := place_of(row["cell"])) is not None}
    if len(places) == len(cells):
        blocks.append(_by_topic(cells, places, topics))
    columns = [Column("cell"), Column("topic"), *_COUNTS, Column("tokens a document", "short"), Column("most from")]
    rows = []
    for row in cells:
        topic = topics.get(places[row["cell"]][0], "") if row["cell"] in places else ""
        each = row["tokens"] / row["documents"]
        rows.append([row["cell"], topic, *_counted(row), round(each), row["largest_source"]])
    blocks.append(Table("Cells, most tokens first.", columns, rows, most_rows=_MOST_CELLS))
    return Section("store", "Token store", "", blocks)


def _counted(row: dict[str, Any]) -> list[Any]:
    return [row["documents"], row["tokens"], row["bytes"], row["bytes"] / row["tokens"]]


def _by_topic(cells: list[dict[str, Any]], places: dict[str, tuple[int, int]], topics: dict[int, str]) -> Table:
    found: dict[int, list[int]] = {}
    for row in cells:
        topic, bucket = places[row["cell"]]
        found.setdefault(topic, [0] * 5)[bucket] += row["tokens"]
    rows: list[list[Any]] = [
        [f"{topic} {topics.get(topic, '')}".strip(), sum(counts), *counts]
        for topic, counts in sorted(found.items(), key=lambda each: (-sum(each[1]), each[0]))
    ]
    columns = [Column("topic"), Column("all", "tokens"), *(Column(f"quality {q}", "tokens") for q in range(5))]
    total = ["all", *(sum(row[place] for row in rows) for place in range(1, 7))]
    caption = "Tokens by topic and quality bucket (0 the worst); shades go by the square root."
    return Table(caption, columns, rows, total, shades(rows, range(2, 7)))


def bytes_section(values: dict[str, Any]) -> Section:
    """Returns bytes a token by language, as identified, and by source: few mean that the tokenizer does not know the script."""
    tables: list[Block] = []
    for axis in ("language", "source"):
        if (counts := values["store"][f"by_{axis}"]) is not None:
            rows = sorted(([row[axis], *_counted(row)] for row in counts), key=lambda row: (row[4], row[0]))
            tables.append(Table(f"By {axis}, least first.", [Column(axis), *_COUNTS], rows, most_rows=_MOST_CELLS))
    lead = (
        "Few bytes a token: the tokenizer knows the language or the kind of text badly, and training on it costs more."
    )
    return Section("bytes", "Bytes a token", lead, tables)
