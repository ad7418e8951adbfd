"""Documents and attribute tables: the contract that every data step shares.

A documents data set is a directory of `part-NNNNN.parquet` files with the columns of `DOCUMENT_SCHEMA`, sorted by `id`
through all its shards, ids unique, no blank text. An id is a function of the text alone, so a document keeps it on its
way through the whole chain. A judgement on documents is an attribute table beside them: a directory with the same shard
names and `id` as the first column, dense (same rows, same order) or sparse (only hits). Judgements on several sources
lie in one subdirectory a source. Paths are local paths or fsspec URLs.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from marin_exec import InputPath, StepFailed, open_file
from steps.files import names_in

DOCUMENT_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
    ]
)

_ROW_GROUP_ROWS = 65_536  # fixed, so that bytes never depend on a pyarrow default


@dataclass(frozen=True, kw_only=True)
class NamedInput:
    """One of several data sets that a step reads, under the name by which outputs and counters call it."""

    name: str
    """Name of the source, e.g. "code"; also the subdirectory in outputs that hold several sources."""
    path: InputPath
    """A documents data set, or another step's output for this source."""


def document_id(text: str) -> str:
    """Returns the id of a text: the xxh3-128 of its UTF-8 bytes, as 32 hex digits."""
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8"))


def document_ids(texts: pa.StringArray) -> pa.StringArray:
    """Returns `document_id` of each text, taken from the bytes as they lie in the array."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None or not data.size:
        return pa.array([document_id("")] * len(texts), pa.string())
    edges = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].tolist()
    view = memoryview(data)
    return pa.array([xxhash.xxh3_128_hexdigest(view[first:last]) for first, last in pairwise(edges)], pa.string())


def shard_name(index: int) -> str:
    """Returns the file name of a shard, e.g. "part-00003.parquet"."""
    return f"part-{index:05d}.parquet"


def shard_names(path: str) -> list[str]:
    """Returns the file names of a data set's shards in order, e.g. ["part-00000.parquet", "part-00001.parquet"].

    Raises:
        StepFailed: the directory does not exist or holds no `part-*.parquet`.
    """
    names = names_in(path)
    shards = [name for name in names if name.startswith("part-") and name.endswith(".parquet")]
    if not shards:
        raise StepFailed(
            f"{path}: no part-*.parquet there (found {names[:5]}); a documents data set or attribute table is "
            f"needed; for an output of several sources add the source's name to the path"
        )
    return sorted(shards, key=lambda name: (len(name), name))  # natural order past part-99999


def read_table(path: str, shard: str, columns: list[str] | None = None) -> pa.Table:
    """Returns one shard of a data set or attribute table.

    Args:
        path: directory of the data set.
        shard: file name from `shard_names`.
        columns: columns to read; None reads all.

    Raises:
        StepFailed: the shard is missing, is no complete Parquet file, or lacks a column.
    """
    where = f"{path.rstrip('/')}/{shard}"
    try:
        with reading_parquet(where), open_file(where, "rb") as file:
            parquet = pq.ParquetFile(file)
            missing = [column for column in columns or () if column not in parquet.schema_arrow.names]
            if missing:
                raise StepFailed(f"{where}: no column {missing}; it has {parquet.schema_arrow.names}")
            return parquet.read(columns=columns)
    except FileNotFoundError as error:
        raise StepFailed(
            f"{where}: no such shard; documents and attribute tables must have the same shard names"
        ) from error


@contextmanager
def reading_parquet(where: str, advice: str = "run the step that wrote it again") -> Generator[None]:
    """Makes what pyarrow says of a damaged file an error that names it; a file system's errors stay what they are.

    Raises:
        StepFailed: the block met a file that is cut short, or whose bytes are not those that were written.
    """
    try:
        yield
    except pa.ArrowInvalid as error:
        raise StepFailed(f"{where}: not a complete Parquet file ({error}); {advice}") from error
    except OSError as error:
        if type(error) is not OSError or error.errno is not None:
            raise
        raise StepFailed(f"{where}: not a complete Parquet file ({error}); {advice}") from error


def read_all(path: str, columns: list[str] | None = None) -> pa.Table:
    """Returns all shards of a data set or attribute table, concatenated in shard order."""
    return pa.concat_tables([read_table(path, shard, columns) for shard in shard_names(path)]).combine_chunks()


def write_table(full_path: str, table: pa.Table) -> None:
    """Writes a table as Parquet; equal tables give equal bytes, however they are chunked."""
    with open_file(full_path, "wb") as file:
        pq.write_table(table.combine_chunks(), file, compression="zstd", row_group_size=_ROW_GROUP_ROWS)


def join_dense(documents: pa.Table, attributes: pa.Table, where: str = "dense attribute table") -> pa.Table:
    """Returns `documents` with the columns of a dense attribute table beside them.

    Args:
        documents: any columns, among them `id`.
        attributes: same ids in the same order; its other columns are added.
        where: named in errors, e.g. the path of the attributes.

    Raises:
        StepFailed: the ids differ in number or order, or are no strings, or a column is in both tables.
    """
    if documents.num_rows != attributes.num_rows:
        raise StepFailed(
            f"{where}: {attributes.num_rows} rows for {documents.num_rows} documents; a dense table has one row a "
            f"document; it was made from other documents"
        )
    ids = _plain_strings(attributes["id"], where)
    if not documents["id"].equals(ids):
        pairs = zip(documents["id"].to_pylist(), ids.to_pylist(), strict=True)
        row, (wanted, got) = next((row, pair) for row, pair in enumerate(pairs) if pair[0] != pair[1])
        raise StepFailed(
            f"{where}: row {row} is for document {got} where the documents have {wanted}; "
            f"the table was made from other documents, or was put in another order"
        )
    for name in attributes.column_names:
        if name == "id":
            continue
        if name in documents.column_names:
            raise StepFailed(
                f"{where}: column {name!r} is in the documents too; select or rename columns before joining"
            )
        documents = documents.append_column(attributes.schema.field(name), attributes[name])
    return documents


def _plain_strings(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Returns ids as plain strings: tables that other programs wrote have large ones, views or dictionaries."""
    values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)):
        raise StepFailed(f"{where}: column 'id' has type {column.type}; strings, the ids of documents, are needed")
    return column.cast(pa.string())


def check_column(table: pa.Table, name: str, kind: Literal["boolean", "integer"], where: str) -> None:
    """Checks a column that decides about documents: the text "false" would count as true, and a missing answer as one.

    Raises:
        StepFailed: it has values of another kind, or nulls.
    """
    is_right = {"boolean": pa.types.is_boolean, "integer": pa.types.is_integer}[kind]
    if not is_right(table[name].type):
        raise StepFailed(f"{where}: column {name!r} has type {table[name].type}; {kind} values are needed")
    if nulls := table[name].null_count:
        raise StepFailed(f"{where}: column {name!r} holds {nulls} nulls; none is allowed")


def sparse_rows(ids: list[str], hits: pa.Table, where: str) -> list[int]:
    """Returns, for each hit of a sparse attribute table, the row of its document.

    Args:
        ids: of all documents of the shard.
        hits: the sparse table of the same shard.
        where: named in errors, e.g. the path of the table.

    Raises:
        StepFailed: a hit is on a document that is not there, or two are on one.
    """
    places, found = {identifier: row for row, identifier in enumerate(ids)}, hits["id"].to_pylist()
    strangers = [identifier for identifier in found if identifier not in places]
    if strangers:
        raise StepFailed(
            f"{where}: hit on document {strangers[0]}, which is not among the documents of that shard; the table was made "
            f"from other documents"
        )
    rows = [places[identifier] for identifier in found]
    if len(set(rows)) != len(rows):
        raise StepFailed(f"{where}: a document is named twice; one row a hit is allowed")
    return rows
