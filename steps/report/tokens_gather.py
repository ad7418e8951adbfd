"""What the page of mixture and tokens shows of a token store: tokenizer, counts by cell, source and language, and a trial of
the tokenizer on documents of the store.
"""

import heapq
import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from marin_exec import StepFailed
from steps.contract import document_shards, read_documents
from steps.documents import read_table, shard_names
from steps.report.outputs import recorded_config, recorded_result
from steps.seeded_ranks import choice_rank
from steps.tokenize.store import COUNTS_FILE, TokenIndex
from steps.tokenize.store import read_documents as read_token_counts
from steps.tokenize.tokenizer import load_tokenizer

_CELL = re.compile(r"c(\d+)q(\d+)")
_SUMS = ("documents", "tokens", "bytes")


def place_of(cell: str) -> tuple[int, int] | None:
    """Returns topic and quality bucket by the name of a cell of mix/cells; None of another name."""
    found = _CELL.fullmatch(cell)
    return (int(found[1]), int(found[2])) if found else None


def tokenizer(path: str | None, index: TokenIndex) -> dict[str, Any]:
    """Returns what is known of the tokenizer and of the policy at the ends of documents.

    Raises:
        StepFailed: the tokenizer at `path` is not the one that the store was made with.
    """
    known: dict[str, Any] = {
        "vocabulary_size": index.vocabulary_size,
        "digest": index.tokenizer_digest,
        "begin_token": index.begin_token,
        "end_token": index.end_token,
        "result": None,
        "config": {},
    }
    if path is not None:
        if (found := load_tokenizer(path).digest) != index.tokenizer_digest:
            raise StepFailed(
                f"report: the tokenizer {path} has the digest {found}, the token store was made with {index.tokenizer_digest}; "
                f"give the tokenizer of the store"
            )
        known |= {"result": recorded_result(path), "config": recorded_config(path)}
    return known


def by_cell_and_source(tokens: str) -> list[dict[str, Any]]:
    """Returns documents, tokens and bytes by cell and source, in this order."""
    return read_table(tokens, COUNTS_FILE).to_pylist()


def summed(rows: Iterable[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Returns the sums of the counts over all but one key, most tokens first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        each = found.setdefault(row[key], {key: row[key], **dict.fromkeys(_SUMS, 0)})
        for name in _SUMS:
            each[name] += row[name]
    return sorted(found.values(), key=lambda each: (-each["tokens"], each[key]))


def by_cell(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the sums by cell, most tokens first, each with `largest_source`, the one that most of its tokens are of."""
    largest: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["tokens"] > largest.get(row["cell"], {"tokens": -1})["tokens"]:
            largest[row["cell"]] = row
    return [{**row, "largest_source": largest[row["cell"]]["source"]} for row in summed(rows, "cell")]


def by_language(tokens: str, index: TokenIndex, languages: str, sources: list[str]) -> list[dict[str, Any]]:
    """Returns documents, tokens and bytes by language, most tokens first.

    Memory holds the ids of all documents that came in, about 100 bytes each.

    Args:
        tokens: the token store.
        index: its index.
        languages: output of documents/language.
        sources: names in it.

    Raises:
        StepFailed: a document of the store has no language.
    """
    tables = [
        read_table(f"{languages}/{source}", shard, ["id", "language"])
        for source in sources
        for shard in shard_names(f"{languages}/{source}")
    ]
    said = pa.concat_tables(tables).group_by("id", use_threads=False).aggregate([("language", "first")])
    parts = []
    for cell in index.cells:
        joined = read_token_counts(tokens, cell.name).join(said, "id", join_type="left outer")
        if joined["language_first"].null_count:
            without = joined.filter(pc.field("language_first").is_null())["id"][0]
            raise StepFailed(
                f"report: document {without} of cell {cell.name} has no language in {languages}; run that step again"
            )
        sums = joined.group_by("language_first").aggregate(
            [("id", "count"), ("num_tokens", "sum"), ("num_bytes", "sum")]
        )
        names = {
            "language_first": "language",
            "id_count": "documents",
            "num_tokens_sum": "tokens",
            "num_bytes_sum": "bytes",
        }
        parts += [{names[key]: value for key, value in row.items()} for row in sums.to_pylist()]
    return summed(parts, "language")


def round_trip(
    tokens: str, index: TokenIndex, documents: str, tokenizer_path: str, count: int, seed: int
) -> dict[str, Any]:
    """Encodes and decodes documents of the store anew; returns {"documents", "same_text", "same_length"}.

    `same_text` come back as they went in; `same_length` have as many tokens as the store counts of them, special ones included.

    Args:
        tokens: the token store.
        index: its index.
        documents: folder with the cells' documents data sets, `cells / "cells"`.
        tokenizer_path: output of the tokenizer step.
        count: documents to try: those with the lowest seeded ranks.
        seed: of the ranks.
    """
    lowest: list[tuple[int, str, str, int]] = []
    for cell in index.cells:
        table = read_token_counts(tokens, cell.name)
        rows = zip(table["id"].to_pylist(), table["num_tokens"].to_pylist(), strict=True)
        lowest = heapq.nsmallest(count, [*lowest, *((choice_rank(seed, each), each, cell.name, n) for each, n in rows)])
    encoder = load_tokenizer(tokenizer_path).tokenizer
    special = (index.begin_token is not None) + (index.end_token is not None)
    found = {"documents": len(lowest), "same_text": 0, "same_length": 0}
    for cell in sorted({cell for _, _, cell, _ in lowest}):
        wanted = {each: length for _, each, name, length in lowest if name == cell}
        for identifier, text in _texts(f"{documents}/{cell}", set(wanted)):
            ids = encoder.encode(text, add_special_tokens=False).ids
            found["same_text"] += encoder.decode(ids, skip_special_tokens=False) == text
            found["same_length"] += len(ids) + special == wanted[identifier]
    return found


def _texts(path: str, wanted: set[str]) -> Iterable[tuple[str, str]]:
    for shard in document_shards(path):
        table = read_documents(path, shard, ["id", "text"])
        chosen = table.filter(pc.field("id").isin(sorted(wanted)))
        yield from zip(chosen["id"].to_pylist(), chosen["text"].to_pylist(), strict=True)
