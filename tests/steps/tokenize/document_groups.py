"""Documents data sets by group, as mix/cells and heldout/select write them, for tests."""

from pathlib import Path

import pyarrow as pa

from steps.documents import document_id, shard_name, write_table


def write_groups(path: Path, groups: dict[str, list[str]], documents_per_shard: int = 1000) -> str:
    for name, texts in groups.items():
        (path / name).mkdir(parents=True)
        rows = sorted((document_id(text), text) for text in texts)
        for start in range(0, max(len(rows), 1), documents_per_shard):
            some = rows[start : start + documents_per_shard]
            table = pa.table(
                {
                    "id": pa.array([i for i, _ in some], pa.string()),
                    "text": pa.array([text for _, text in some], pa.string()),
                    "source_id": pa.array([f"{name}/{i}" for i, _ in some], pa.string()),
                    "metadata": pa.array(["{}"] * len(some), pa.string()),
                }
            )
            write_table(str(path / name / shard_name(start // documents_per_shard)), table)
    return str(path)


def real_texts(count: int) -> list[str]:
    """Docstrings and code of the standard library: text that is there on any machine."""
    import argparse
    import asyncio.base_events
    import inspect
    import logging
    import pathlib
    import textwrap
    import typing
    import unittest.mock

    modules = (argparse, asyncio.base_events, inspect, logging, pathlib, textwrap, typing, unittest.mock)
    pieces = []
    for module in modules:
        lines = Path(inspect.getsourcefile(module)).read_text().splitlines()
        pieces.extend("\n".join(lines[i : i + 25]) for i in range(0, len(lines), 25))
    unique = [piece for piece in dict.fromkeys(pieces) if piece.strip()]
    assert len(unique) >= count, f"only {len(unique)} texts"
    return unique[:count]
