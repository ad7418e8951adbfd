"""The corpora: how much they are, and how fast each format is read, one process on one core."""

import sys
import time
from collections import Counter, defaultdict

from benchmarks.data._corpora import normalised
from benchmarks.data._memory import peak_megabytes
from benchmarks.figures import Figures
from steps.contract import document_shards
from steps.documents import read_table
from steps.sources.corpora import cards
from steps.sources.corpora_table import CORPORA, Corpus
from steps.sources.decoding import Unusable
from steps.sources.formats.file import SourceFile
from steps.sources.package_texts import wanted_files
from steps.sources.packages import fetched

_MEASURED_FILES = 300  # of a source, evenly spread over its paths
_SLOWEST_MB_A_SECOND = 0.5


def main() -> int:
    figures = Figures()
    sizes = _sizes(normalised())
    languages = {language for card in cards().values() for language in card.languages}
    figures.add("sources", len(sizes), "sources", at_least=50)
    figures.add("languages that sources are in", len(languages), "languages", at_least=40)
    figures.add("documents", sum(documents for documents, _ in sizes.values()), "documents", at_least=400_000)
    figures.add("text", sum(size for _, size in sizes.values()) / 1e6, "MB", at_least=250)
    for name, (seconds, size) in sorted(_reading_by_format().items()):
        figures.add(f"text read from {name}", size / 1e6 / seconds, "MB per CPU second", at_least=_SLOWEST_MB_A_SECOND)
    figures.add("peak memory of reading", peak_megabytes(), "MB")
    return figures.exit_code


def _sizes(folders: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Returns documents and UTF-8 bytes of text by source."""
    found = {}
    for name, path in folders.items():
        texts = [read_table(path, shard, ["text"])["text"] for shard in document_shards(path)]
        found[name] = sum(map(len, texts)), sum(len(text.as_py().encode()) for column in texts for text in column)
    return found


def _reading_by_format() -> dict[str, tuple[float, int]]:
    """Returns CPU seconds and bytes of text by format, of some files of every source."""
    seconds: dict[str, float] = defaultdict(float)
    sizes: Counter[str] = Counter()
    for corpus in CORPORA:
        files = _some_files(corpus)
        began = time.process_time()
        for file in files:
            try:
                size = sum(len(piece.text.encode()) for piece in corpus.format.pieces(file))
            except Unusable:
                continue
            sizes[type(corpus.format).__name__] += size
        seconds[type(corpus.format).__name__] += time.process_time() - began
    return {name: (seconds[name], sizes[name]) for name in sizes}


def _some_files(corpus: Corpus) -> list[SourceFile]:
    root = fetched(corpus.package).path
    wanted = wanted_files(root, corpus.include, corpus.exclude)
    return [SourceFile(root, name) for name in wanted[:: max(1, len(wanted) // _MEASURED_FILES)]]


if __name__ == "__main__":
    sys.exit(main())
