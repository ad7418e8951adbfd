"""Writes one cell of a token store, a batch of documents at a time: no step of it holds the whole cell.

A cell is encoded into a Levanter cache on the local disk, read back a part at a time and checked as what it will be to a
reader: same tokens, special tokens by the policy, bytes of every document. Then its files are copied to the output.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from marin_exec import ShardOut, StepFailed, open_file
from steps.contract import document_shards, read_documents
from steps.documents import write_table
from steps.files import put_file
from steps.tokenize.encoding import TokenPolicy, check_tokens, encode_documents
from steps.tokenize.levanter_cache import read_cache_parts, write_cache
from steps.tokenize.store import (
    CellDigest,
    CellEntry,
    TokenCell,
    cell_directory,
    documents_file,
    documents_table,
)
from steps.tokenize.tokenizer import LoadedTokenizer

_BATCH_TOKENS = 4_000_000  # 16 MB: what is written, and read back, at once


@dataclass
class SourceCount:
    """What of a cell, or of the whole store, came from one source."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0

    def add(self, documents: int, tokens: int, num_bytes: int) -> None:
        self.documents += documents
        self.tokens += tokens
        self.bytes += num_bytes


@dataclass
class _Written:
    """What was encoded so far."""

    ids: list[pa.ChunkedArray] = field(default_factory=list)
    num_tokens: list[np.ndarray] = field(default_factory=list)
    num_bytes: list[np.ndarray] = field(default_factory=list)
    sources: dict[str, SourceCount] = field(default_factory=dict)
    tokens: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)

    def add(self, table: pa.Table, cell: TokenCell, default_source: str) -> None:
        lengths = np.diff(cell.offsets)
        self.ids.append(table["id"])
        self.num_tokens.append(lengths)
        self.num_bytes.append(cell.document_bytes)
        self.tokens.update(cell.tokens.data)
        named = table["source"].to_pylist() if "source" in table.column_names else [default_source] * len(lengths)
        for source, tokens, num_bytes in zip(named, lengths.tolist(), cell.document_bytes.tolist(), strict=True):
            self.sources.setdefault(source, SourceCount()).add(1, tokens, num_bytes)


def write_cell(
    documents: str,
    name: str,
    tokenizer: LoadedTokenizer,
    policy: TokenPolicy,
    lengths: np.ndarray,
    split: str,
    shard: ShardOut,
) -> tuple[CellEntry, dict[str, SourceCount]]:
    """Tokenises one documents data set into a cell of the store.

    Args:
        documents: path of the data set. Its column `source` names where each document came from; without it, that is `name`.
        name: of the cell.
        tokenizer: from `load_tokenizer`.
        policy: from `token_policy`.
        lengths: int32[V], bytes of each token.
        split: Levanter's name of the split.
        shard: where files go.

    Returns:
        The cell's entry in the index, and its counts by source, in order of source.

    Raises:
        StepFailed: the documents break their contract, there is none, one gives no token, or what was read back is not what
            was written.
    """
    where = f"cell {name}"
    written = _Written()
    directory = cell_directory(name, split)
    with tempfile.TemporaryDirectory() as local:
        metadata = {"cell": name, "begin": policy.begin is not None, "end": policy.end is not None}
        files = write_cache(local, _batches(documents, name, tokenizer, policy, written), metadata)
        if not written.ids:
            raise StepFailed(f"{where}: no document; leave the cell out of what is tokenised")
        ids = pa.chunked_array([chunk for each in written.ids for chunk in each.chunks], pa.string()).combine_chunks()
        table = documents_table(ids, np.concatenate(written.num_tokens), np.concatenate(written.num_bytes))
        digest = _checked(local, table, policy, lengths, written, where)
        for relative in sorted(files, key=lambda file: file.endswith(".json")):  # the ledger says it is finished
            put_file(Path(local) / relative, shard.file(f"{directory}/{relative}"))
    write_table(shard.file(documents_file(name)), table)
    entry = CellEntry(
        name=name,
        tokens=int(sum(each.sum() for each in written.num_tokens)),
        documents=table.num_rows,
        bytes=int(sum(each.sum() for each in written.num_bytes)),
        digest=digest,
    )
    return entry, dict(sorted(written.sources.items()))


def _batches(
    documents: str, name: str, tokenizer: LoadedTokenizer, policy: TokenPolicy, written: _Written
) -> Iterator[list[np.ndarray]]:
    rows, held = [], 0
    for shard in document_shards(documents):
        columns = ["id", "text", "source"] if _has_source(f"{documents}/{shard}") else ["id", "text"]
        table = read_documents(documents, shard, columns)
        for part, cell in encode_documents(tokenizer, policy, table, f"cell {name}"):
            written.add(part, cell, name)
            rows += np.split(cell.tokens, cell.offsets[1:-1])
            held += len(cell.tokens)
            if held >= _BATCH_TOKENS:
                yield rows
                rows, held = [], 0
    if rows:
        yield rows


def _has_source(path: str) -> bool:
    with open_file(path, "rb") as file:
        return "source" in pq.read_schema(file).names


def _checked(
    local: str, documents: pa.Table, policy: TokenPolicy, lengths: np.ndarray, written: _Written, where: str
) -> str:
    """The cell's digest, from what the cache gives back."""
    num_tokens, num_bytes = documents["num_tokens"].to_numpy(), documents["num_bytes"].to_numpy()
    digest, back, found = CellDigest(int(num_tokens.sum())), xxhash.xxh3_128(), []
    for first, tokens, offsets in read_cache_parts(local, _BATCH_TOKENS):
        some = slice(first, first + len(offsets) - 1)
        ids = documents["id"][some].to_pylist()
        check_tokens(TokenCell(tokens, offsets, ids, num_bytes[some]), policy, lengths, where)
        back.update(tokens.data)
        digest.add(tokens)
        found.append(np.diff(offsets))
    if back.digest() != written.tokens.digest() or not np.array_equal(np.concatenate(found), num_tokens):
        raise StepFailed(f"{where}: Levanter's cache does not hold the {num_tokens.sum()} tokens written to it")
    offsets = np.concatenate([[0], np.cumsum(num_tokens)])
    return digest.value(offsets, num_bytes, documents["id"].to_pylist())
