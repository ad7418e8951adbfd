"""Side files of the data-diet page: every document's fate, by the first two digits of its id.

A page opened from a disk may load scripts beside it and nothing else, so each file is one call of a function with its rows.
"""

import json
from itertools import groupby

import pyarrow as pa

from marin_exec import Out
from steps.files import write_bytes

_MOST_REASON = 200


def write_shelves(out: Out, ledger: pa.Table, sources: list[str]) -> int:
    """Writes `ids/XX.js`, rows [id, number of the source, fate, reason, cell]; returns the number of files."""
    numbers = {name: number for number, name in enumerate(sources)}
    names = json.dumps(sources)
    columns = ledger.sort_by("id").select(["id", "source", "fate", "reason", "cell"])
    count = 0
    begin = 0
    for shelf, ids in groupby(columns["id"].to_pylist(), key=lambda each: each[:2]):
        part = columns.slice(begin, sum(1 for _ in ids))
        begin += part.num_rows
        count += 1
        rows = [
            [row["id"], numbers[row["source"]], row["fate"], row["reason"][:_MOST_REASON], row["cell"]]
            for row in part.to_pylist()
        ]
        body = f"shelf({json.dumps(shelf)},{names},{json.dumps(rows, separators=(',', ':'))});\n"
        write_bytes(out.file(f"ids/{shelf}.js"), body.encode())
    return count
