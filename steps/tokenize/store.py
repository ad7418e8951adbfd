"""Reads and writes a token store: Levanter caches by cell, with the documents that they were made from beside them.

    index.json                            cells with their counts and digests, the token policy, the fingerprint of all
    token_bytes.npy                       bytes of text that each token stands for (steps/tokenize/token_bytes.py)
    cells/<cell>/<split>/                 a Levanter TreeCache with one field, input_ids (zarr3 through tensorstore)
    documents/<cell>.parquet              id, num_tokens, num_bytes of each row of that cache, in its order
    counts.parquet                        documents, tokens and bytes by cell and source

A cell is a part of the training data (topic x quality) or one source of an evaluation set. A document is one row of its
cell's cache, however long. Levanter's own loaders take `cells/<cell>` as a component's cache directory; here the arrays are
read whole as NumPy, which is fast on a CPU and gives the map from tokens to documents that lineage needs. To be read, a
cell must fit in memory; it is written a batch at a time.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from marin_exec import StepFailed
from steps.documents import read_table
from steps.files import read_bytes, write_json
from steps.tokenize.levanter_cache import read_cache

INDEX_FILE = "index.json"
COUNTS_FILE = "counts.parquet"
FORMAT = "token-store/1"
_CELL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, eq=False)
class TokenCell:
    """The tokens of one cell and the documents they came from (N tokens, D documents)."""

    tokens: np.ndarray
    """int32[N], documents one after the other."""
    offsets: np.ndarray
    """int64[D + 1]: document d is tokens[offsets[d]:offsets[d + 1]]."""
    document_ids: list[str]
    """D ids, in the order of the tokens."""
    document_bytes: np.ndarray
    """int64[D]: UTF-8 bytes of each document's text."""


@dataclass(frozen=True, kw_only=True)
class CellEntry:
    """What the index knows of a cell."""

    name: str
    tokens: int
    documents: int
    bytes: int
    digest: str
    """xxh3-128 over its arrays and ids, from `cell_digest`."""


@dataclass(frozen=True, kw_only=True)
class TokenIndex:
    """The index of a token store."""

    begin_token: int | None
    """Token id at the start of each document; None where the policy adds none."""
    end_token: int | None
    """Token id at the end of each document; None where the policy adds none."""
    vocabulary_size: int
    tokenizer_digest: str
    """xxh3-128 of the tokenizer file's bytes."""
    split: str
    """Name of the Levanter split, the directory below each cell."""
    cells: tuple[CellEntry, ...]
    """In order of name."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all of the index: equal exactly when tokens, ids, cells and policy are equal."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def cell_digest(cell: TokenCell) -> str:
    """Returns a digest of what a cell means, whatever the bytes of its files: 32 hex digits."""
    digest = CellDigest(len(cell.tokens))
    digest.add(cell.tokens)
    return digest.value(cell.offsets, cell.document_bytes, cell.document_ids)


class CellDigest:
    """A cell's digest, its tokens added a part at a time.

    Args:
        num_tokens: of the whole cell.
    """

    def __init__(self, num_tokens: int) -> None:
        self._state = xxhash.xxh3_128(f"<i4{num_tokens};".encode())

    def add(self, tokens: np.ndarray) -> None:
        """Adds the next tokens."""
        self._state.update(np.ascontiguousarray(tokens, dtype="<i4").data)

    def value(self, offsets: np.ndarray, document_bytes: np.ndarray, document_ids: Iterable[str]) -> str:
        """Returns the digest, when all tokens were added, with what else the cell holds (see `TokenCell`)."""
        for array in (offsets, document_bytes):
            self._state.update(f"<i8{len(array)};".encode())
            self._state.update(np.ascontiguousarray(array, dtype="<i8").data)
        self._state.update("\n".join(document_ids).encode())
        return self._state.hexdigest()


def is_directory_name(name: str) -> bool:
    """Returns whether a name may be a cell's or a split's, which are directories."""
    return _CELL_NAME.fullmatch(name) is not None


def check_cell_name(name: str) -> str:
    """Returns the name. Raises StepFailed where it cannot be a directory's name."""
    if not is_directory_name(name):
        raise StepFailed(f"cell {name!r}: not a valid name; letters, digits, '.', '_' and '-' are allowed, no '/'")
    return name


def cell_directory(cell: str, split: str) -> str:
    """Returns where a cell's Levanter cache lies below the store."""
    return f"cells/{cell}/{split}"


def documents_file(cell: str) -> str:
    """Returns where a cell's documents table lies below the store."""
    return f"documents/{cell}.parquet"


def documents_table(document_ids: pa.Array | list[str], num_tokens: np.ndarray, num_bytes: np.ndarray) -> pa.Table:
    """Returns a cell's documents table: id (str), num_tokens (int64), num_bytes (int64)."""
    return pa.table(
        {
            "id": pa.array(document_ids, pa.string()),
            "num_tokens": pa.array(num_tokens, pa.int64()),
            "num_bytes": pa.array(num_bytes, pa.int64()),
        }
    )


def write_index(full_path: str, index: TokenIndex) -> None:
    """Writes the index as JSON, its fingerprint included."""
    body = {"format": FORMAT, **asdict(index), "fingerprint": index.fingerprint}
    write_json(full_path, body)


def read_index(path: str) -> TokenIndex:
    """Returns the index of the token store at `path`.

    Raises:
        StepFailed: there is no index (the store is not finished), or it is of another format, or was changed by hand.
    """
    where = f"{path.rstrip('/')}/{INDEX_FILE}"
    try:
        body: dict[str, Any] = json.loads(read_bytes(where))
    except FileNotFoundError as error:
        raise StepFailed(f"{where}: not there; the output of a tokenize/cache step is needed") from error
    found, fingerprint = body.pop("format", None), body.pop("fingerprint", None)
    if found != FORMAT:
        raise StepFailed(f"{where}: format {found!r}; this code reads {FORMAT!r}. Run tokenize/cache again")
    body["cells"] = tuple(CellEntry(**each) for each in body["cells"])
    index = TokenIndex(**body)
    if index.fingerprint != fingerprint:
        raise StepFailed(f"{where}: its fingerprint is {fingerprint} where its content gives {index.fingerprint}")
    return index


def cell_names(path: str) -> list[str]:
    """Returns the names of a token store's cells, sorted."""
    return [cell.name for cell in read_index(path).cells]


def _entry(path: str, index: TokenIndex, cell: str) -> CellEntry:
    for entry in index.cells:
        if entry.name == cell:
            return entry
    raise StepFailed(f"{path}: no cell {cell!r}; it has {[entry.name for entry in index.cells]}")


def read_documents(path: str, cell: str) -> pa.Table:
    """Returns a cell's documents, no tokens: id (str), num_tokens (int64), num_bytes (int64), in cache order."""
    _entry(path, read_index(path), cell)
    folder, name = f"{path.rstrip('/')}/{documents_file(cell)}".rsplit("/", 1)
    return read_table(folder, name, ["id", "num_tokens", "num_bytes"])


def read_cell(path: str, cell: str, index: TokenIndex | None = None) -> TokenCell:
    """Returns one cell's arrays and documents, checked against the digest in the index.

    Args:
        path: the token store: a local path or an fsspec URL.
        cell: a name from `cell_names`.
        index: what `read_index(path)` gave, to save reading it for each of many cells.

    Raises:
        StepFailed: there is no such cell, or its files do not hold what was written.
    """
    index = index or read_index(path)
    entry = _entry(path, index, cell)
    documents = read_documents(path, cell)
    tokens, offsets = read_cache(f"{path.rstrip('/')}/{cell_directory(cell, index.split)}")
    found = TokenCell(tokens, offsets, documents["id"].to_pylist(), documents["num_bytes"].to_numpy())
    if cell_digest(found) != entry.digest:
        raise StepFailed(
            f"{path}: cell {cell} holds {len(tokens)} tokens of {len(found.document_ids)} documents with digest "
            f"{cell_digest(found)}; the index has {entry.tokens} tokens of {entry.documents} documents, "
            f"{entry.digest}. The store is damaged: run tokenize/cache again"
        )
    return found
