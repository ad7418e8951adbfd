"""mix/cells: MB of text a second, and memory at two sizes of corpus, each in a process of its own."""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.data._memory import peak_megabytes
from benchmarks.data._step_out import FolderOut
from benchmarks.figures import Figures
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, shard_name, write_table
from steps.mix.cells import CellsConfig, documents_by_cell

SIZES = (8_000, 48_000)  # documents
_CHARACTERS = 2_300  # of a document, the mean of the corpora's longer sources
_SHARD_DOCUMENTS = 4_000
_PART_DOCUMENTS = 1_000
_TOPICS, _BUCKETS = 8, 5
_LEDGER_BYTES = 300  # a document: the ledger, and a copy of it while it is sorted


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps(_measure(Path(sys.argv[1]))))
        return 0
    figures, peaks = Figures(), []
    for documents in SIZES:
        with tempfile.TemporaryDirectory(prefix="marin-cells-") as folder:
            _write_corpus(Path(folder), documents)
            command = [sys.executable, "-m", "benchmarks.data.cells", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, before, peak, tables = json.loads(done.stdout)
        peaks.append(tables)
        megabytes = documents * _CHARACTERS / 1e6
        figures.add(f"cells of {megabytes:.0f} MB of text", megabytes / seconds, "MB per CPU second", at_least=5)
        figures.add(f"tables held at most, {megabytes:.0f} MB of text", tables, "MB")
        figures.add(f"resident memory beyond imports, {megabytes:.0f} MB of text", peak - before, "MB")
    ledger = (SIZES[1] - SIZES[0]) * _LEDGER_BYTES / 1e6
    figures.add("tables that the larger corpus adds", peaks[1] - peaks[0], "MB", at_most=ledger)
    return figures.exit_code


def _write_corpus(folder: Path, documents: int) -> None:
    words = random.Random(0)
    vocabulary = ["".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(5_000)]
    rows = []
    for _ in range(documents):
        text = " ".join(words.choices(vocabulary, k=_CHARACTERS // 8))
        rows.append((document_id(text), text))
    rows.sort()
    for start in range(0, documents, _SHARD_DOCUMENTS):
        some = rows[start : start + _SHARD_DOCUMENTS]
        ids, size = [identifier for identifier, _ in some], len(some)
        tables = {
            "documents": pa.table([ids, [t for _, t in some], ids, ["{}"] * size], schema=DOCUMENT_SCHEMA),
            "heuristics": pa.table({"id": ids, "keep": [True] * size, "reasons": [""] * size}),
            "topics": pa.table({"id": ids, "topic": pa.array([int(i[0], 16) % _TOPICS for i in ids], pa.int16())}),
            "quality": pa.table({"id": ids, "bucket": pa.array([int(i[1], 16) % _BUCKETS for i in ids], pa.int8())}),
        }
        none = {"id": pa.string(), "kept_source": pa.string(), "kept_id": pa.string(), "containment": pa.float32()}
        none |= {"benchmark": pa.string(), "max_overlap": pa.float32()}
        for name in ("exact", "fuzzy", "contaminated", "heldout"):
            tables[name] = pa.schema(list(none.items())).empty_table()
        for name, table in tables.items():
            target = folder / name / "source"
            target.mkdir(parents=True, exist_ok=True)
            write_table(str(target / shard_name(start // _SHARD_DOCUMENTS)), table)


def _measure(folder: Path) -> tuple[float, float, float, float]:
    """Returns CPU seconds, the peak of resident memory before and after, and the most that Arrow held at once, in MB.

    Resident memory has what the allocators keep for later too, and grows with their fragments.
    """
    before, began = peak_megabytes(), time.process_time()
    judgements = ("exact", "fuzzy", "heuristics", "contaminated", "heldout", "topics", "quality")
    config = CellsConfig(
        sources=(NamedInput(name="source", path=str(folder / "documents/source")),),
        documents_per_shard=_PART_DOCUMENTS,
        **{name: str(folder / name) for name in judgements},
    )
    documents_by_cell(config, FolderOut(folder / "out"))
    return time.process_time() - began, before, peak_megabytes(), pa.default_memory_pool().max_memory() / 1e6


if __name__ == "__main__":
    sys.exit(main())
