"""Embedding by the static table: documents and megabytes a second on one core, beside the `tokenizers` package; what int8 and
shorter cuts cost.

    python -m benchmarks.data.embed
"""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.data._fourteen import static_table, texts_and_sources
from benchmarks.data._memory import peak_megabytes
from benchmarks.figures import Figures
from steps.cluster.agreement import contingency, purity
from steps.cluster.kmeans import assign, centered, train_centroids
from steps.embed.encoders import PINNED, StaticTable
from steps.embed.minilm_files import model_directory, tokenize
from steps.embed.static import embed_texts, load_table
from steps.embed.vectors import quantize
from steps.embed.wordpiece import tokenize_batch

_SHORT_CHARACTERS = 400
_PACKAGE_TEXTS = 2_000  # the package takes half a minute for all
_CUTS = (512, 256, 128, 64, 32)


def cpu_seconds(function: Callable[[], object]) -> float:
    """Returns the CPU time of one call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def speed(figures: Figures, texts: list[str], table: np.ndarray) -> None:
    """Documents and megabytes a CPU second, of all texts and of the short ones."""
    directory = model_directory(PINNED)
    embed_texts(texts[:2], table, directory, 512)  # compiles
    short = [text for text in texts if len(text) <= _SHORT_CHARACTERS]
    for name, chosen in (("documents of the 14 sources", texts), (f"at most {_SHORT_CHARACTERS} characters", short)):
        megabytes = sum(len(text.encode()) for text in chosen) / 1e6
        taken = cpu_seconds(lambda chosen=chosen: embed_texts(chosen, table, directory, 512))
        mean = f"{name}, mean {1e6 * megabytes / len(chosen):,.0f} bytes"
        figures.add(f"static table: {mean}", len(chosen) / taken, "documents/CPU s", at_least=2_500)
        figures.add(f"static table: {mean}", megabytes / taken, "MB/CPU s", at_least=4)
    some = texts[:: max(1, len(texts) // _PACKAGE_TEXTS)]
    ours = cpu_seconds(lambda: tokenize_batch(some, directory, 512))
    theirs = cpu_seconds(lambda: tokenize(some, directory, 512, special=False))
    figures.add(
        "WordPiece: documents a CPU second over those of the tokenizers package", theirs / ours, "ratio", at_least=5
    )
    found = tokenize_batch(some, directory, 512).ids.tolist()
    expected = [token for each in tokenize(some, directory, 512, special=False) for token in each]
    figures.add("WordPiece: tokens are those of the package", float(found == expected), "yes = 1", at_least=1)


def losses(figures: Figures, texts: list[str], sources: np.ndarray, table: np.ndarray) -> None:
    """What int8 loses, and what a shorter cut loses in the purity of 40 clusters by source."""
    directory = model_directory(PINNED)
    for cut in _CUTS:
        started = time.process_time()
        vectors = embed_texts(texts, table, directory, cut)
        taken = time.process_time() - started
        if cut == _CUTS[0]:
            int8_range = StaticTable(table="").int8_range
            stored = quantize(vectors, int8_range).astype(np.float64)
            cosines = (stored * vectors).sum(axis=1) / np.linalg.norm(stored, axis=1)
            figures.add("int8: mean cosine to the float vector", float(cosines.mean()), "cosine", at_least=0.999)
            figures.add("int8: least cosine", float(cosines.min()), "cosine", at_least=0.99)
            figures.add("int8: clipped entries", float((np.abs(vectors) > int8_range).mean()), "share", at_most=0.001)
        vectors = centered(vectors, vectors.mean(axis=0))
        clusters = assign(vectors, train_centroids(vectors, 40, seed=0, iterations=20, restarts=3))
        figures.add(f"cut at {cut} tokens", len(texts) / taken, "documents/CPU s")
        figures.add(
            f"cut at {cut} tokens: purity of 40 clusters by source", purity(contingency(clusters, sources)), "share"
        )


def main() -> int:
    figures = Figures()
    texts, sources = texts_and_sources()
    table = load_table(static_table())
    speed(figures, texts, table)
    losses(figures, texts, sources, table)
    figures.add("embed: peak memory", peak_megabytes(), "MB", at_most=4_000)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
