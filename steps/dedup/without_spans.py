"""Documents without their repeated spans, as raw texts for `documents/normalize`, which gives them their new ids.

A span goes with the line ends after it. A document of which next to nothing is left goes as a whole, and is counted: a page
that was all boilerplate is no page of its own. One that lost nothing stays as it was, however short.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from marin_exec import InputPath, Out, ShardOut, StepFailed, kind
from steps.config_checks import check_number
from steps.contract import document_shards, read_documents
from steps.documents import read_table, sparse_rows
from steps.sources.raw import RawDocument, raw_name, write_raw


@dataclass(frozen=True, kw_only=True)
class WithoutSpansConfig:
    """What is removed from one source."""

    documents: InputPath
    """The source's documents."""
    exact: InputPath
    """Its table of dedup/exact: these documents are left out."""
    spans: InputPath
    """Its table of dedup/spans."""
    min_characters: int = 100
    """A document that lost spans and has fewer characters left is dropped; white space at its ends is not counted."""

    def __post_init__(self) -> None:
        check_number(self, "min_characters", low=1)


@dataclass(frozen=True)
class WithoutSpansResult:
    """Counters; documents_in = documents + exact_duplicates + near_empty."""

    documents_in: int
    documents: int
    """Documents written."""
    exact_duplicates: int
    changed: int
    """Documents that lost a span and stay."""
    near_empty: int
    """Documents dropped, since too little was left of them."""
    characters_in: int
    """Characters of all documents but exact duplicates."""
    characters: int
    """Characters written."""


@dataclass(frozen=True, kw_only=True)
class WithoutSpansItem:
    """One documents shard."""

    config: WithoutSpansConfig
    shard: str
    number: int


def without_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """Returns a text without spans, which are in order and don't overlap."""
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True)).rstrip()


def cut_shard(item: WithoutSpansItem, shard: ShardOut) -> WithoutSpansResult:
    """Writes one raw shard."""
    config = item.config
    documents = read_documents(config.documents, item.shard)
    ids = documents["id"].to_pylist()
    table = read_table(config.spans, item.shard, ["id", "starts", "ends"])
    where = f"{config.spans}/{item.shard}"
    rows = sparse_rows(ids, table, where)
    spans = {
        row: list(zip(starts, ends, strict=True))
        for row, starts, ends in zip(rows, table["starts"].to_pylist(), table["ends"].to_pylist(), strict=True)
    }
    exact = read_table(config.exact, item.shard, ["id"])
    duplicates = set(sparse_rows(ids, exact, f"{config.exact}/{item.shard}"))
    counts = {"changed": 0, "near_empty": 0, "characters_in": 0, "characters": 0}

    def kept() -> Iterator[RawDocument]:
        for row, document in enumerate(documents.to_pylist()):
            if row in duplicates:
                continue
            text = document["text"]
            counts["characters_in"] += len(text)
            if row in spans:
                if spans[row][-1][1] > len(text):
                    raise StepFailed(f"{where}: a span of {document['id']} ends beyond its text; make it again")
                text = without_spans(text, spans[row])
                if len(text.strip()) < config.min_characters:
                    counts["near_empty"] += 1
                    continue
                counts["changed"] += 1
            counts["characters"] += len(text)
            yield RawDocument(document["source_id"], text, document["metadata"])

    written, _ = write_raw(shard.file(raw_name(item.number)), kept())
    return WithoutSpansResult(documents_in=len(ids), documents=written, exact_duplicates=len(duplicates), **counts)


@kind("dedup/without_spans", version=1)
def documents_without_spans(config: WithoutSpansConfig, out: Out) -> WithoutSpansResult:
    """Writes `raw-NNNNN.parquet`, one a documents shard: the `source` of a documents/normalize.

    Raises:
        StepFailed: the documents break their contract, or a table was made from others.
    """
    items = {
        shard: WithoutSpansItem(config=config, shard=shard, number=number)
        for number, shard in enumerate(document_shards(config.documents))
    }
    done = [WithoutSpansResult(**values) for values in out.map_shards(cut_shard, items).values()]
    totals = {name: sum(getattr(each, name) for each in done) for name in WithoutSpansResult.__dataclass_fields__}
    return WithoutSpansResult(**totals)
