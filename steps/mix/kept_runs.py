"""Kept documents on their way into cells: sorted runs on local disk, so that memory holds one part of a cell at a time.

A run is what one shard of a source gives: an Arrow file whose batches hold documents of one cell each, sorted by id. A part of
a cell is then read from the batches whose ids reach into it.
"""

from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_BATCH_ROWS = 1_024


class _Batch(NamedTuple):
    run: Path
    number: int
    first_id: str
    last_id: str


class KeptRuns:
    """Documents added shard by shard, and read cell by cell in order of id."""

    def __init__(self, folder: Path) -> None:
        """Args: folder: on a local disk, empty; the runs take as much room as the text."""
        self._folder = folder
        self._batches: dict[str, list[_Batch]] = defaultdict(list)
        self._schema = pa.schema([])

    def add(self, kept: pa.Table) -> None:
        """Adds what one shard of a source keeps; columns `cell` and `id` are strings."""
        self._schema = kept.schema.remove(kept.schema.get_field_index("cell"))
        if not kept.num_rows:
            return
        kept = kept.sort_by([("cell", "ascending"), ("id", "ascending")]).combine_chunks()
        run = self._folder / f"{len(list(self._folder.iterdir())):06d}.arrow"
        number = start = 0
        with pa.ipc.new_file(str(run), self._schema) as writer:
            for cell, rows_of_cell in groupby(kept["cell"].to_pylist()):
                end = start + sum(1 for _ in rows_of_cell)
                for first in range(start, end, _BATCH_ROWS):
                    rows = kept.slice(first, min(_BATCH_ROWS, end - first)).drop_columns(["cell"])
                    (batch,) = rows.to_batches()
                    writer.write_batch(batch)
                    ids = rows["id"]
                    self._batches[cell].append(_Batch(run, number, ids[0].as_py(), ids[-1].as_py()))
                    number += 1
                start = end

    def read(self, cell: str, first_id: str, last_id: str) -> pa.Table:
        """Returns the documents of a cell whose ids lie between two, these included, sorted by id."""
        pieces = []
        for batch in self._batches[cell]:
            if batch.first_id > last_id or batch.last_id < first_id:
                continue
            with pa.memory_map(str(batch.run)) as file, pa.ipc.open_file(file) as reader:
                rows = pa.Table.from_batches([reader.get_batch(batch.number)])
            pieces.append(rows.filter((pc.field("id") >= first_id) & (pc.field("id") <= last_id)))
        return pa.concat_tables([self._schema.empty_table(), *pieces]).sort_by("id")
