"""Benchmark items as a file: what a step that reads a benchmark writes, and the scan takes.

`items.parquet` has a row for each text of each item: `benchmark` (with the part of the item: "kmmlu/question"), `name` of the
item, `text`, `required` (whether it must yield a feature), `short` (whether it counts as a whole if it has few words). Parts of
one item may overlap: "question" is the question alone, "item" is question and choices as a harness prints them.
"""

from collections.abc import Sequence

import pyarrow as pa

from marin_exec import StepFailed
from steps.decontaminate.records import Record
from steps.documents import read_table, write_table

ITEMS = "items.parquet"
_SCHEMA = pa.schema(
    [
        ("benchmark", pa.string()),
        ("name", pa.string()),
        ("text", pa.string()),
        ("required", pa.bool_()),
        ("short", pa.bool_()),
    ]
)


def write_items(full_path: str, records: Sequence[Record]) -> None:
    """Writes records in their order."""
    rows = [{name: getattr(record, name) for name in _SCHEMA.names} for record in records]
    write_table(full_path, pa.Table.from_pylist(rows, schema=_SCHEMA))


def read_items(path: str) -> list[Record]:
    """Returns the records in a step's output.

    Raises:
        StepFailed: there is no items.parquet, or there are no records in it.
    """
    rows = read_table(path, ITEMS, _SCHEMA.names).to_pylist()
    if not rows:
        raise StepFailed(f"{path}/{ITEMS}: no records; check the step that wrote it, or leave the suite out")
    return [Record(**row, keeps_frequent=True) for row in rows]
