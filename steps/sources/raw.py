"""Raw documents: what every source writes and only `documents/normalize` reads.

A raw output is a directory of `raw-NNNNN.parquet` with the columns of `RAW_SCHEMA`: text as it was found, in the
source's own order, blank and repeated texts included. Ids come later, in normalize.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from marin_exec import StepFailed, open_file
from steps.documents import reading_parquet
from steps.files import names_in

RAW_SCHEMA = pa.schema(
    [
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
    ]
)

# A batch is one row group. Both limits are constants, so that the bytes are a function of the documents alone.
_BATCH_ROWS = 4_096
_BATCH_CHARACTERS = 16_000_000


class RawDocument(NamedTuple):
    """One document as its source has it."""

    source_id: str
    """Where it was: a record id, a path, or a path with a line or row number."""
    text: str
    metadata: str
    """A JSON object with sorted keys."""


def metadata_json(fields: Mapping[str, Any]) -> str:
    """Returns fields as a JSON object with sorted keys; values that JSON lacks become strings: dates, decimals, "nan", "inf"."""
    try:
        return json.dumps(fields, sort_keys=True, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:  # a number that is none: pandas writes what is missing so
        return json.dumps(_finite(fields), sort_keys=True, ensure_ascii=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def raw_name(index: int) -> str:
    """Returns the file name of a raw shard, e.g. "raw-00003.parquet"."""
    return f"raw-{index:05d}.parquet"


def write_raw(full_path: str, documents: Iterable[RawDocument]) -> tuple[int, int]:
    """Streams documents into one Parquet file.

    Args:
        full_path: local path or URL of the file.
        documents: consumed lazily; about 16 MB of text is held at a time.

    Returns:
        The number of documents written, and of UTF-8 bytes of their texts.
    """
    num_documents = num_bytes = 0
    with open_file(full_path, "wb") as file, pq.ParquetWriter(file, RAW_SCHEMA, compression="zstd") as writer:
        for batch in _batches(documents):
            columns = [pa.array(column, pa.string()) for column in zip(*batch, strict=True)]
            writer.write_table(pa.table(columns, schema=RAW_SCHEMA))
            num_documents += len(batch)
            num_bytes += sum(len(document.text.encode("utf-8")) for document in batch)
    return num_documents, num_bytes


def _batches(documents: Iterable[RawDocument]) -> Iterator[list[RawDocument]]:
    batch: list[RawDocument] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def read_raw(path: str) -> Iterator[RawDocument]:
    """Yields the documents of a raw output, shard by shard.

    Raises:
        StepFailed: see `read_raw_batches`.
    """
    for batch in read_raw_batches(path):
        yield from map(RawDocument, *(column.to_pylist() for column in batch.columns))


def read_raw_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yields the documents of a raw output as tables of at most 4,096 rows with the columns of `RAW_SCHEMA`.

    Raises:
        StepFailed: there is no raw shard at `path`, or one is not a whole raw shard, or holds a null or text that is no UTF-8.
    """
    names = names_in(path)
    shards = [name for name in names if name.startswith("raw-") and name.endswith(".parquet")]
    if not shards:
        raise StepFailed(
            f"{path}: no raw-*.parquet there (found {names[:5]}); the output of a sources/* step is needed"
        )
    for shard in shards:
        where = f"{path}/{shard}"
        with reading_parquet(where, "run its source again"), open_file(where, "rb") as file:
            parquet = pq.ParquetFile(file)
            if set(RAW_SCHEMA.names) - set(parquet.schema_arrow.names):
                raise StepFailed(f"{path}/{shard}: columns {parquet.schema_arrow.names}; {RAW_SCHEMA.names} are needed")
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=RAW_SCHEMA.names):
                try:
                    batch.validate(full=True)  # of what is not UTF-8 Parquet itself says nothing
                except pa.ArrowInvalid as error:
                    raise StepFailed(f"{path}/{shard}: {error}; run its source again") from error
                if nulls := [name for name in batch.schema.names if batch[name].null_count]:
                    raise StepFailed(f"{path}/{shard}: nulls in {nulls}; none is allowed. Run its source again")
                yield batch
