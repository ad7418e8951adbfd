"""The same bytes from any number of processes, whatever the order in which they take shards."""

import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from benchmarks.data._step_out import FolderOut  # one that other processes can import
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import EarlierRun, FuzzyConfig, fuzzy_duplicates
from steps.dedup.spans import SpansConfig, repeated_spans
from steps.dedup.without_spans import WithoutSpansConfig, documents_without_spans
from tests.directory_out import DirectoryOut, plain
from tests.steps.dedup.dedup_corpus import edited_docstrings, write_documents


class PoolOut(DirectoryOut):
    """Runs shards in other processes, handed out in a shuffled order."""

    def __init__(self, path: Path, pool: ProcessPoolExecutor, seed: int):
        super().__init__(path)
        self._pool, self._seed = pool, seed

    def map_shards(self, fn, items, *, cpus=1):
        names = list(items)
        random.Random(self._seed).shuffle(names)
        futures = {name: self._pool.submit(fn, items[name], FolderOut(self.path)) for name in names}
        return {name: plain(futures[name].result()) for name in items}


def run_all(folder: Path, sources, old, num_workers: int) -> dict[str, bytes]:
    """Returns every file that the steps of deduplication write."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context) as pool:

        def out(name: str) -> PoolOut:
            return PoolOut(folder / name, pool, seed=num_workers)

        exact, first, spans = out("exact"), out("first"), out("spans")
        exact_duplicates(ExactConfig(sources=(old, *sources)), exact)
        fuzzy_duplicates(FuzzyConfig(sources=(old,), exact=exact.path), first)
        earlier = (EarlierRun(fuzzy=first.path, sources=(old,)),)
        fuzzy_duplicates(FuzzyConfig(sources=sources, exact=exact.path, earlier=earlier), out("second"))
        repeated_spans(SpansConfig(sources=sources, exact=exact.path, min_characters=20), spans)
        for source in sources:
            tables = {"exact": f"{exact.path}/{source.name}", "spans": f"{spans.path}/{source.name}"}
            documents_without_spans(WithoutSpansConfig(documents=source.path, **tables), out(f"left-{source.name}"))
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dedup_bytes_are_the_same_with_1_2_and_4_processes_and_shards_in_any_order(tmp_path):
    corpus = edited_docstrings()
    parts = [corpus[i::3] for i in range(3)]
    old, *sources = [write_documents(tmp_path / name, part, 4) for name, part in zip("oab", parts, strict=True)]
    written = {num: run_all(tmp_path / f"workers-{num}", tuple(sources), old, num) for num in (1, 2, 4)}
    assert len(written[1]) > 40 and written[1] == written[2] == written[4]
