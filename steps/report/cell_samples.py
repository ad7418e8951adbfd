"""Kept documents of each cell, to be read: those with the lowest seeded ranks, each in a seeded window."""

from typing import Any

import numpy as np
import pyarrow as pa

from steps.documents import read_table, shard_names
from steps.report.shown import Shower
from steps.seeded_ranks import choice_rank


def cell_samples(
    cells: str, names: list[str], shower: Shower, *, count: int, seed: int
) -> dict[str, list[dict[str, Any]]]:
    """Returns for each cell {"id", "source", "source_id", "passage"} of its documents with the lowest ranks.

    Args:
        cells: folder of the cells in mix/cells' output.
        names: of the cells.
        shower: decides what is shown of each.
        count: documents of each cell.
        seed: of the ranks and the windows.
    """
    return {name: _of_cell(f"{cells}/{name}", shower, count, seed) for name in names}


def _of_cell(path: str, shower: Shower, count: int, seed: int) -> list[dict[str, Any]]:
    chosen: list[tuple[int, dict[str, Any]]] = []
    for shard in shard_names(path):
        ids = read_table(path, shard, ["id"])["id"].to_pylist()
        ranks = np.array([choice_rank(seed, each) for each in ids], dtype=np.uint64)
        first = np.sort(np.argsort(ranks, kind="stable")[:count])
        rows = read_table(path, shard, ["id", "text", "source_id", "source"]).take(pa.array(first)).to_pylist()
        chosen += zip(ranks[first].tolist(), rows, strict=True)
    return [_sample(rank, row, shower) for rank, row in sorted(chosen, key=lambda each: each[0])[:count]]


def _sample(rank: int, row: dict[str, Any], shower: Shower) -> dict[str, Any]:
    spare = max(0, len(row["text"]) - shower.characters)
    start = rank % (spare + 1)
    return {
        "id": row["id"],
        "source": row["source"],
        "source_id": shower.name(row["source"], row["source_id"]),
        "passage": shower.passage(row["source"], row["text"], start=start),
    }
