"""Documents sorted by id through a folder of runs, so that a source of any size is sorted in the same memory.

Up to `SPILL_BYTES` of documents are held. When there are more, they go to 256 files in the temporary folder (TMPDIR) by
the first byte of their ids, and each file is sorted by itself in the end. What comes out is the same either way.

Memory: `SPILL_BYTES` and the largest of the files, about a 256th of the source. Space in TMPDIR: that of the source.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

SPILL_BYTES = 64_000_000
_FILES = 256


class DocumentSorter:
    """A context manager: `add` tables of documents, then read `tables` once.

    Args:
        schema: of the tables; `id`, 32 hex digits, is in it.
        order: columns that equal ids are sorted by.
    """

    def __init__(self, schema: pa.Schema, order: tuple[str, ...], spill_bytes: int = SPILL_BYTES):
        self._schema, self._order, self._spill_bytes = schema, order, spill_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._folder: tempfile.TemporaryDirectory | None = None
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, documents: pa.Table) -> None:
        self._held.append(documents)
        self._held_bytes += documents.nbytes
        if self._held_bytes > self._spill_bytes:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """Yields all documents in order of (id, `order`); documents with one id are in one table."""
        if self._folder is None:
            yield self._sorted(self._held)
            return
        self._spill()
        for writer in self._writers.values():
            writer.close()
        written, self._writers = sorted(self._writers), {}
        for number in written:
            with pa.OSFile(self._path(number)) as file, pa.ipc.open_stream(file) as reader:
                table = reader.read_all()
            Path(self._path(number)).unlink()
            yield self._sorted([table])

    def _sorted(self, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self._schema.empty_table()
        return pa.concat_tables(tables).sort_by([(name, "ascending") for name in ("id", *self._order)])

    def _path(self, number: int) -> str:
        assert self._folder is not None
        return f"{self._folder.name}/{number:03d}.arrows"

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="marin-sort-")
        if not self._held:
            return
        held = pa.concat_tables(self._held).combine_chunks()
        self._held, self._held_bytes = [], 0
        first_byte = np.array([int(each[:2], 16) for each in held["id"].to_pylist()], dtype=np.int64)
        rows = np.argsort(first_byte, kind="stable")
        edges = np.searchsorted(first_byte[rows], np.arange(_FILES + 1))
        for number in range(_FILES):
            chosen = rows[edges[number] : edges[number + 1]]
            if chosen.size:
                if number not in self._writers:
                    options = pa.ipc.IpcWriteOptions(compression="lz4")
                    self._writers[number] = pa.ipc.new_stream(self._path(number), self._schema, options=options)
                self._writers[number].write_table(held.take(pa.array(chosen)))
