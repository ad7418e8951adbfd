"""Repeated paragraphs or lines: which spans of which documents an earlier place has word for word.

Spans are compared without white space at their ends, and with any run of it taken for one space; shorter ones than
`min_characters` are left alone, for they repeat by nature (headings, braces). Of all places of a span the first stays: by
order of `sources`, then document id, then place in the text. Repetition inside one document counts. Nothing is removed
here: `dedup/without_spans` does that.

Hashes of 128 bits are compared, made a shard at a time. On the one node: 48 bytes a span.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from marin_exec import InputPath, Out, ShardOut, kind
from steps.config_checks import check_choice, check_number, check_sources
from steps.contract import read_documents
from steps.dedup.exact import id_runs
from steps.dedup.sources import source_shards
from steps.documents import NamedInput, read_table, sparse_rows, write_table

_SEPARATORS = {"paragraph": re.compile(r"\n(?:[^\S\n]*\n)+"), "line": re.compile(r"\n")}
_HASHES = pa.schema([("row", pa.int64()), ("start", pa.int64()), ("end", pa.int64()), ("hash", pa.binary(16))])
_SCHEMA = pa.schema([("id", pa.string()), ("starts", pa.list_(pa.int64())), ("ends", pa.list_(pa.int64()))])


@dataclass(frozen=True, kw_only=True)
class SpansConfig:
    """What is compared."""

    sources: tuple[NamedInput, ...]
    """Documents data sets, in order of priority of the place that stays."""
    exact: InputPath
    """Output of dedup/exact on the same sources: documents that it removes have no spans."""
    unit: str = "paragraph"
    """"paragraph" (parted by blank lines) or "line"."""
    min_characters: int = 100
    """Spans of fewer characters, as they are compared, are left alone."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_choice(self, "unit", tuple(_SEPARATORS))
        check_number(self, "min_characters", low=1)


@dataclass(frozen=True)
class SpansResult:
    """Counters of repeated spans."""

    spans: int
    """Spans that were compared."""
    repeated: int
    """Of them, those that an earlier place has."""
    repeated_by_source: dict[str, int]
    """Repeated spans, by source."""
    characters_by_source: dict[str, int]
    """Characters of text, by source, without exact duplicates."""
    repeated_characters_by_source: dict[str, int]
    """Of them, in repeated spans."""


@dataclass(frozen=True, kw_only=True)
class SpansItem:
    """One documents shard whose spans are hashed."""

    source: str
    path: str
    exact_path: str
    shard: str
    unit: str
    min_characters: int


def spans_of(text: str, unit: str, min_characters: int) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, what is compared) of each span that is long enough, with the line ends after it.

    Places are in characters of the text.
    """
    start = 0
    for end in (*(separator.end() for separator in _SEPARATORS[unit].finditer(text)), len(text)):
        compared = " ".join(text[start:end].split())
        if len(compared) >= min_characters:
            yield start, end, compared
        start = end


def hash_spans(item: SpansItem, shard: ShardOut) -> int:
    """Writes `hashes/<source>/<shard>`, a row a span in order; returns the characters of the texts."""
    documents = read_documents(item.path, item.shard, ["id", "text"])
    exact = read_table(item.exact_path, item.shard, ["id"])
    duplicates = set(sparse_rows(documents["id"].to_pylist(), exact, f"{item.exact_path}/{item.shard}"))
    rows, characters = [], 0
    for row, text in enumerate(documents["text"].to_pylist()):
        if row in duplicates:
            continue
        characters += len(text)
        for start, end, compared in spans_of(text, item.unit, item.min_characters):
            rows.append((row, start, end, xxhash.xxh3_128_digest(compared.encode())))
    columns = zip(*rows, strict=True) if rows else [()] * len(_HASHES)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _HASHES, strict=True)]
    write_table(shard.file(f"hashes/{item.source}/{item.shard}"), pa.table(arrays, schema=_HASHES))
    return characters


@kind("dedup/spans", version=1)
def repeated_spans(config: SpansConfig, out: Out) -> SpansResult:
    """Writes, per source and shard, the sparse table `id, starts, ends` of repeated spans, in characters of the text.

    Beside it `hashes/`, the spans that were compared.

    Raises:
        StepFailed: a source breaks the documents contract, or `exact` was made from other sources.
    """
    shards = source_shards(config.sources)
    items = {
        f"{source.name}/{shard}": SpansItem(
            source=source.name,
            path=source.path,
            exact_path=f"{config.exact}/{source.name}",
            shard=shard,
            unit=config.unit,
            min_characters=config.min_characters,
        )
        for _, source, shard in shards
    }
    characters = list(out.map_shards(hash_spans, items).values())
    hashes = [read_table(f"{out.path}/hashes", name, ["hash"])["hash"].combine_chunks() for name in items]
    keys = np.concatenate([_keys(each) for each in hashes])
    order, follows = id_runs(keys, np.arange(len(keys)))
    repeated = np.empty(len(keys), dtype=bool)
    repeated[order] = follows

    result = {counter: {source.name: 0 for source in config.sources} for counter in ("spans", "characters", "own")}
    first = 0
    for (_, source, shard), name, own_hashes, own in zip(shards, items, hashes, characters, strict=True):
        chosen = np.flatnonzero(repeated[first : first + len(own_hashes)])
        first += len(own_hashes)
        hits = read_table(f"{out.path}/hashes", name, ["row", "start", "end"]).take(pa.array(chosen)).to_pydict()
        ids = read_documents(source.path, shard, ["id"])["id"]
        by_row: dict[int, list[tuple[int, int]]] = {}
        for row, start, end in zip(hits["row"], hits["start"], hits["end"], strict=True):
            by_row.setdefault(row, []).append((start, end))
            result["own"][source.name] += end - start
        columns = {
            "id": ids.take(pa.array(list(by_row), pa.int64())),
            "starts": [[start for start, _ in spans] for spans in by_row.values()],
            "ends": [[end for _, end in spans] for spans in by_row.values()],
        }
        write_table(out.file(f"{source.name}/{shard}"), pa.table(columns, schema=_SCHEMA))
        result["spans"][source.name] += len(chosen)
        result["characters"][source.name] += own
    return SpansResult(
        spans=len(keys),
        repeated=int(np.count_nonzero(repeated)),
        repeated_by_source=result["spans"],
        characters_by_source=result["characters"],
        repeated_characters_by_source=result["own"],
    )


def _keys(hashes: pa.FixedSizeBinaryArray) -> np.ndarray:
    """Returns uint64[N, 2]."""
    if not len(hashes):
        return np.empty((0, 2), dtype=np.uint64)
    content = hashes.buffers()[1]
    return np.frombuffer(content, dtype=np.uint64)[2 * hashes.offset : 2 * (hashes.offset + len(hashes))].reshape(-1, 2)
