"""Normalising: megabytes a second on one core, and memory at two sizes of a source. Reading and writing are counted.

The bar of 5 MB/s is a minute for all corpora. The check of the contract on entry is measured beside the reading that it comes with.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data._corpora import normalised
from benchmarks.data._measured import measured
from benchmarks.data._step_out import FolderOut
from benchmarks.figures import Figures
from steps.contract import check_documents, document_shards, read_documents
from steps.documents import read_table, shard_names
from steps.normalize.normalize import NormalizeConfig, NormalizeResult, normalize
from steps.sources.raw import RawDocument, raw_name, write_raw

SOURCES = ("kernel-docs", "python-docs", "man-pages/library", "man-pages/ru", "fortunes", "wordnet-3.0")
SMALL, LARGE = 1, 4


def main() -> int:
    figures = Figures()
    paths = list(normalised(SOURCES).values())
    with tempfile.TemporaryDirectory() as folder:
        peaks = {}
        for times in (SMALL, LARGE):
            raw = f"{folder}/raw-{times}"
            Path(raw).mkdir()
            write_raw(f"{raw}/{raw_name(0)}", _copies(paths, times))
            taken = measured(_normalize, raw, f"{folder}/out-{times}")
            result: NormalizeResult = taken.value
            size = result.bytes_in / 1e6
            peaks[times] = taken.peak_megabytes
            figures.add(
                f"normalize: megabytes of text a CPU second, {size:.0f} MB",
                size / taken.cpu_seconds,
                "MB/s",
                at_least=5,
            )
            figures.add(
                f"normalize: documents a CPU second, {size:.0f} MB",
                result.documents_in / taken.cpu_seconds,
                "documents/s",
            )
            figures.add(f"normalize: peak memory, {size:.0f} MB", taken.peak_megabytes, "MB", at_most=1_000)
        figures.add(
            f"normalize: peak memory of {LARGE} times the text over that of the text", peaks[LARGE] / peaks[SMALL], "ratio",
            at_most=1.35,
        )  # fmt: skip
    for name in ("kernel-docs", "wordnet-3.0"):
        reading, checking, documents, size = measured(_check, normalised([name])[name]).value
        figures.add(f"contract: megabytes of text read a CPU second, {name}", size / reading, "MB/s")
        figures.add(f"contract: megabytes of text checked a CPU second, {name}", size / checking, "MB/s", at_least=50)
        figures.add(
            f"contract: documents checked a CPU second, {name}", documents / checking, "documents/s", at_least=50_000
        )
    return figures.exit_code


def _copies(paths: list[str], times: int) -> Iterator[RawDocument]:
    """The documents, over and over, each copy with a line of its own so that none is a duplicate."""
    for copy in range(times):
        for path in paths:
            for shard in document_shards(path):
                for row in read_documents(path, shard).to_pylist():
                    text = f"{row['text']}\n{copy}" if copy else row["text"]
                    yield RawDocument(f"{copy}/{path}/{row['source_id']}", text, row["metadata"])


def _normalize(raw: str, out: str) -> NormalizeResult:
    return normalize(NormalizeConfig(source=raw), FolderOut(out))


def _check(path: str) -> tuple[float, float, int, float]:
    """Returns CPU seconds of reading and of checking, documents, and megabytes of text."""
    started = time.process_time()
    tables = [read_table(path, shard) for shard in shard_names(path)]
    reading = time.process_time() - started
    started = time.process_time()
    for table in tables:
        check_documents(table, path)
    checking = time.process_time() - started
    return reading, checking, sum(map(len, tables)), sum(table["text"].nbytes for table in tables) / 1e6


if __name__ == "__main__":
    raise SystemExit(main())
