"""Decontamination: megabytes scanned in a CPU second on one core, and peak memory at two sizes of the same corpora.

The suite is HumanEval and the dev sets of lm-eval-harness. A scan is all that a worker does with a shard: read, check, split,
hash, look up, write. Each size runs in a process of its own, after a shard that compiles the kernels.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.data._corpora import normalised
from benchmarks.data._suites import suite_records
from benchmarks.figures import Figures
from steps.decontaminate.features import batches
from steps.decontaminate.index import FeatureIndex, build_index
from steps.decontaminate.items import write_items
from steps.decontaminate.scan import ScanTask, Suite, find_matches, load_index, scan_shard, utf8
from steps.documents import read_table, shard_names

SOURCES = (
    "kernel-docs",
    "python-docs",
    "gnome-help/de",
    "gnome-help/ru",
    "gnome-help/zh-CN",
    "gnome-help/hi",
    "fortunes",
    "stdlib-code",
)
MANY = 10_000_000


class _Shard:
    """Where a shard's output goes."""

    name = "shard"

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, relative: str) -> str:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        pass


def scan(folder: str, times: int) -> None:
    """Scans all sources so many times, and prints CPU seconds, bytes and peak memory."""
    suite = Suite(packages=(), items=(folder,), documents=(), ngram_words=13, shortest_words=3, shortest_run_words=8)
    load_index(suite)
    tasks = [
        ScanTask(name, path, shard, suite) for name, path in normalised(SOURCES).items() for shard in shard_names(path)
    ]
    out = _Shard(Path(folder) / "out")
    scan_shard(tasks[-1], out)
    started = time.process_time()
    num_bytes = sum(scan_shard(task, out).num_bytes for _ in range(times) for task in tasks)
    seconds = time.process_time() - started
    print(seconds, num_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def large_index(index: FeatureIndex) -> FeatureIndex:
    """The index with millions of features more, of one record."""
    more = np.random.default_rng(0).integers(0, 2**64, MANY, dtype=np.uint64)
    hashes = np.unique(np.concatenate([index.hashes, more]))
    return FeatureIndex(
        records=index.records, hashes=hashes, starts=np.arange(len(hashes) + 1),
        members=np.zeros(len(hashes), dtype=np.int64), features_of_record=np.full(len(index.records), len(hashes)),
        ngram_words=13, shortest_words=3, keeps_frequent=np.ones(len(hashes), dtype=bool),
        is_run=np.isin(hashes, index.hashes[index.is_run]), run_lengths=index.run_lengths,
    )  # fmt: skip


def main() -> int:
    figures = Figures()
    paths = normalised(SOURCES)
    with tempfile.TemporaryDirectory() as folder:
        write_items(f"{folder}/items.parquet", suite_records())
        peaks = {}
        for times in (1, 4):
            command = [sys.executable, "-m", "benchmarks.data.decontaminate_speed", folder, str(times)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            seconds, num_bytes, peaks[times] = map(float, done.stdout.split())
            figures.add(
                f"scan, shard to shard, {num_bytes / 1e6:.0f} MB", num_bytes / 1e6 / seconds, "MB/s", at_least=30
            )
            figures.add(f"peak memory of that, {num_bytes / 1e6:.0f} MB", peaks[times] / 1e6, "MB")
        figures.add("peak memory at four times the text", peaks[4] / peaks[1], "ratio", at_most=1.1)

    index = build_index(suite_records(), 13, 3, 8)
    for name, path in paths.items():
        data, offsets = utf8(read_table(path, shard_names(path)[0], ["text"])["text"])
        figures.add(f"matching alone, {name}", matching_rate(index, data, offsets), "MB/s")
    large = large_index(index)
    data, offsets = utf8(read_table(paths["kernel-docs"], shard_names(paths["kernel-docs"])[0], ["text"])["text"])
    figures.add(
        f"matching against {len(large.hashes):,} features", matching_rate(large, data, offsets), "MB/s", at_least=30
    )
    return figures.exit_code


def matching_rate(index: FeatureIndex, data: np.ndarray, offsets: np.ndarray) -> float:
    """Returns megabytes matched in a CPU second."""
    find_matches(index, data, offsets[:2], np.zeros(1, dtype=np.int64))  # compiles
    started = time.process_time()
    for first, last in batches(np.diff(offsets).tolist()):
        find_matches(index, data, offsets[first : last + 1], np.arange(first, last))
    return int(offsets[-1] - offsets[0]) / 1e6 / (time.process_time() - started)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        scan(sys.argv[1], int(sys.argv[2]))
    else:
        raise SystemExit(main())
