"""tokenize/cache: documents by cell, or by source for evaluation sets, to a token store of Levanter caches.

Cells are worked on in groups, one shard of the step a group, each committed on its own: a step that died goes on
with the groups that are left. The begin token stands first in every document by the config's policy; that is checked
on what was read back.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from marin_exec import ConfigError, InputPath, Out, ShardOut, StepFailed, kind
from steps.config_checks import check_number
from steps.contract import read_all_documents
from steps.documents import write_table
from steps.files import put_file, read_bytes
from steps.tokenize.bpe import BEGIN_TOKEN, END_TOKEN, TOKENIZER_FILE
from steps.tokenize.groups import group_names
from steps.tokenize.levanter_cache import read_cache, write_cache
from steps.tokenize.store import (
    INDEX_FILE,
    CellEntry,
    TokenCell,
    TokenIndex,
    cell_digest,
    cell_directory,
    check_begin_tokens,
    check_cell_name,
    documents_file,
    documents_table,
    is_directory_name,
    read_index,
    write_index,
)
from steps.tokenize.token_bytes import TOKEN_BYTES_FILE, check_token_bytes, token_bytes, write_token_bytes

_ENCODE_DOCUMENTS = 1024


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    documents: InputPath
    """Directory with one documents data set a subdirectory: `cells / "cells"`, or `heldout / "documents"`."""
    tokenizer: InputPath
    """Output of tokenize/train_bpe."""
    expected_cells: tuple[str, ...] | None = None
    """Exactly the cells that must be there; None takes those found."""
    begin: bool = True
    """Put the begin token before each document."""
    end: bool = False
    """Put the end token after each document. The next begin token already says that the last one ended."""
    split: str = "train"
    """Levanter's name for the split: "train", or "validation" for evaluation sets."""
    cells_per_shard: int = 8
    """Cells that one task works on; a function of the data, not of the number of workers."""

    def __post_init__(self) -> None:
        check_number(self, "cells_per_shard", low=1)
        if isinstance(self.split, str) and not is_directory_name(self.split):
            raise ConfigError(
                f"CacheConfig.split: {self.split!r}; a directory's name of letters, digits, '.', '_' and '-' is needed"
            )


@dataclass(frozen=True)
class CacheResult:
    tokens: int
    documents: int
    bytes: int
    bytes_per_token: float
    vocabulary_size: int
    fingerprint: str
    """Of the whole store; a mixture is made for exactly one."""
    tokens_by_cell: dict[str, int]
    documents_by_cell: dict[str, int]
    bytes_by_cell: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class _Policy:
    """What a shard needs besides its cells; plain values, so that it travels to any worker."""

    documents: str
    tokenizer: str
    begin: bool
    end: bool
    split: str


def store_digest(path: str) -> str:
    """Returns the content digest of a token store: its fingerprint, made from the digests of arrays and ids."""
    return read_index(path).fingerprint


@kind("tokenize/cache", version=2, content_digest=store_digest)
def token_cache(config: CacheConfig, out: Out) -> CacheResult:
    """Writes the token store described in steps/tokenize/store.py.

    Raises:
        StepFailed: a cell is missing, has no document, or repeats one, or what was read back is not what was written.
    """
    names = [check_cell_name(name) for name in group_names(config.documents, config.expected_cells)]
    tokenizer, tokenizer_digest = _load_tokenizer(config.tokenizer)
    policy = _Policy(
        documents=config.documents,
        tokenizer=config.tokenizer,
        begin=config.begin,
        end=config.end,
        split=config.split,
    )
    size = config.cells_per_shard
    shards = {f"cells-{i // size:04d}": names[i : i + size] for i in range(0, len(names), size)}
    done = out.map_shards(partial(_tokenize_cells, policy), shards)
    index = TokenIndex(
        begin_token=tokenizer.token_to_id(BEGIN_TOKEN) if config.begin else None,
        end_token=tokenizer.token_to_id(END_TOKEN) if config.end else None,
        vocabulary_size=tokenizer.get_vocab_size(),
        tokenizer_digest=tokenizer_digest,
        split=config.split,
        cells=tuple(CellEntry(**entry) for entries in done.values() for entry in entries),
    )
    write_token_bytes(out.file(TOKEN_BYTES_FILE), token_bytes(tokenizer))
    write_index(out.file(INDEX_FILE), index)
    tokens, num_bytes = sum(each.tokens for each in index.cells), sum(each.bytes for each in index.cells)
    return CacheResult(
        tokens=tokens,
        documents=sum(each.documents for each in index.cells),
        bytes=num_bytes,
        bytes_per_token=num_bytes / tokens,
        vocabulary_size=index.vocabulary_size,
        fingerprint=index.fingerprint,
        tokens_by_cell={each.name: each.tokens for each in index.cells},
        documents_by_cell={each.name: each.documents for each in index.cells},
        bytes_by_cell={each.name: each.bytes for each in index.cells},
    )


def _load_tokenizer(path: str) -> tuple[Any, str]:
    """The tokenizer and its file's digest. The text of a special token inside a document is plain text to it."""
    from tokenizers import Tokenizer

    where = f"{path.rstrip('/')}/{TOKENIZER_FILE}"
    try:
        body = read_bytes(where)
    except FileNotFoundError as error:
        raise StepFailed(f"{where}: not there; the output of tokenize/train_bpe is needed") from error
    tokenizer = Tokenizer.from_buffer(body)
    for token in (BEGIN_TOKEN, END_TOKEN):
        if tokenizer.token_to_id(token) is None:
            raise StepFailed(f"{where}: no token {token!r} in its vocabulary; train it with tokenize/train_bpe")
    tokenizer.encode_special_tokens = True
    return tokenizer, xxhash.xxh3_128_hexdigest(body)


def _tokenize_cells(policy: _Policy, names: list[str], shard: ShardOut) -> list[dict[str, Any]]:
    tokenizer, _ = _load_tokenizer(policy.tokenizer)
    lengths = token_bytes(tokenizer)
    entries = []
    for done, name in enumerate(names):
        shard.progress(f"tokenising {name}", done=done, total=len(names))
        table = read_all_documents(f"{policy.documents.rstrip('/')}/{name}", ["id", "text"])
        cell = encode_documents(tokenizer, table, begin=policy.begin, end=policy.end, where=name)
        check_token_bytes(cell, lengths, f"cell {name}")
        _write_cell(policy, name, cell, tokenizer.token_to_id(BEGIN_TOKEN), shard)
        entry = CellEntry(
            name=name,
            tokens=len(cell.tokens),
            documents=len(cell.document_ids),
            bytes=int(cell.document_bytes.sum()),
            digest=cell_digest(cell),
        )
        entries.append(asdict(entry))
    return entries


def encode_documents(tokenizer: Any, table: pa.Table, *, begin: bool, end: bool, where: str) -> TokenCell:
    """Returns the tokens of a table of documents, in its order.

    Args:
        tokenizer: a `tokenizers.Tokenizer` with the special tokens of steps/tokenize/bpe.py.
        table: columns id (str) and text (str).
        begin: put the begin token before each document.
        end: put the end token after each document.
        where: named in errors.

    Raises:
        StepFailed: no documents, an id twice, or a document that gives no token.
    """
    ids = table["id"].to_pylist()
    if not ids or len(set(ids)) != len(ids):
        raise StepFailed(
            f"cell {where}: {len(ids)} documents with {len(set(ids))} distinct ids; unique ones are needed"
        )
    first = [tokenizer.token_to_id(BEGIN_TOKEN)] if begin else []
    last = [tokenizer.token_to_id(END_TOKEN)] if end else []
    rows = [np.array(first + row + last, dtype=np.int32) for row in _encode(tokenizer, table["text"].to_pylist())]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    if lengths.min() <= len(first) + len(last):
        raise StepFailed(f"cell {where}: document {ids[int(lengths.argmin())]} has no text to tokenise")
    num_bytes = np.array([len(text.encode()) for text in table["text"].to_pylist()], dtype=np.int64)
    return TokenCell(np.concatenate(rows), np.concatenate([[0], np.cumsum(lengths)]), ids, num_bytes)


def _encode(tokenizer: Any, texts: list[str]) -> Iterator[list[int]]:
    for start in range(0, len(texts), _ENCODE_DOCUMENTS):  # bounds the memory that encodings take
        for encoding in tokenizer.encode_batch_fast(texts[start : start + _ENCODE_DOCUMENTS], add_special_tokens=False):
            yield encoding.ids


def _write_cell(policy: _Policy, name: str, cell: TokenCell, begin_token: int, shard: ShardOut) -> None:
    """Writes a cell on the local disk, reads it back and checks it, then copies its files to the output."""
    directory = cell_directory(name, policy.split)
    metadata = {"cell": name, "begin": policy.begin, "end": policy.end}
    with tempfile.TemporaryDirectory() as local:
        files = write_cache(local, cell.tokens, cell.offsets, metadata)
        tokens, offsets = read_cache(local)
        back = TokenCell(tokens, offsets, cell.document_ids, cell.document_bytes)
        if cell_digest(back) != cell_digest(cell):
            raise StepFailed(f"cell {name}: Levanter's cache does not hold the {len(cell.tokens)} tokens written to it")
        if policy.begin:
            check_begin_tokens(back, begin_token, f"cell {name}")
        for relative in sorted(files, key=lambda file: file.endswith(".json")):  # the ledger says it is finished
            put_file(Path(local) / relative, shard.file(f"{directory}/{relative}"))
    write_table(shard.file(documents_file(name)), documents_table(cell))
