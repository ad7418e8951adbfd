"""What fuzzy deduplication finds and removes, beside all pairs of 8,315 real documents, compared exactly.

    python -m benchmarks.data.dedup_truth

The truth is the Jaccard similarity of word 5-shingles, of every pair: shingles are told apart by the words themselves and
counted by a sparse product, without hashes, signatures or kernels of the steps. Two versions of Django's documentation are
natural near-duplicates; what else repeats is as it comes. Bars are for the default settings.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view
from scipy import sparse

from benchmarks.data._corpora import normalised
from benchmarks.data._step_out import FolderOut
from benchmarks.figures import Figures
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.folding import split_words
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput, read_all, shard_name, write_table
from steps.seeded_ranks import choice_rank

SOURCES = {
    "django-5.2": 700,
    "django-5.0": 700,
    "python-docs": 600,
    "postgresql-docs": 1_200,
    "perl-docs": 300,
    "libreoffice-help/en": 1_300,
    "stdlib-code": 1_200,
    "spam-assassin": 700,
    "kernel-docs": 8_315,
}
"""Most documents of each; the last gives what is missing to `NUM_DOCUMENTS`."""
NUM_DOCUMENTS = 8_315
SHINGLE_WORDS = 5
SETTINGS = ((14, 8), (26, 11))
DEFAULT = FuzzyConfig(sources=(NamedInput(name="x", path="x"),), exact="x")
CONTAINMENTS = (0.75, 0.9)


type Document = tuple[str, str]
"""Name of the source, and id: a text that two sources have is two documents, as it is for the steps."""


@dataclass(frozen=True)
class Truth:
    """All pairs at Jaccard similarity 0.5 or more, as numbers of documents."""

    documents: list[Document]
    pairs: np.ndarray
    """int64[P, 2]"""
    jaccard: np.ndarray
    """float64[P]"""


def choose(folder: Path) -> tuple[tuple[NamedInput, ...], dict[Document, str]]:
    """Writes the chosen documents as data sets; returns these, and all texts."""
    texts: dict[Document, str] = {}
    sources = []
    paths = normalised(SOURCES)
    for name in SOURCES:
        table = read_all(paths[name])
        ids = table["id"].to_pylist()
        most = min(SOURCES[name], NUM_DOCUMENTS - len(texts))
        chosen = set(sorted(ids, key=lambda identifier: choice_rank(0, identifier))[:most])
        table = table.filter(pa.array([identifier in chosen for identifier in ids]))
        own_name = name.replace("/", "-")
        texts |= {(own_name, row["id"]): row["text"] for row in table.to_pylist()}
        own = folder / own_name
        own.mkdir(parents=True)
        write_table(str(own / shard_name(0)), table)
        sources.append(NamedInput(name=own_name, path=str(own)))
    return tuple(sources), texts


def all_pairs(texts: dict[Document, str]) -> Truth:
    """Compares every document with every other."""
    numbers: dict[str, int] = {}
    documents = [
        np.array([numbers.setdefault(word, len(numbers)) for word in split_words(text)], dtype=np.int64)
        for text in texts.values()
    ]
    # A text of fewer words than a shingle is one shingle of all of them: padded by a word that no text has.
    documents = [
        np.pad(words, (0, max(0, SHINGLE_WORDS - words.size)), constant_values=len(numbers)) for words in documents
    ]
    windows = np.concatenate([sliding_window_view(words, SHINGLE_WORDS) for words in documents])
    shingles = windows[:, 0]
    for column in range(1, SHINGLE_WORDS):
        shingles = np.unique(shingles * (len(numbers) + 1) + windows[:, column], return_inverse=True)[1]
    owners = np.repeat(np.arange(len(documents)), [words.size - SHINGLE_WORDS + 1 for words in documents])
    has = sparse.coo_array((np.ones(shingles.size, dtype=np.int32), (owners, shingles))).tocsr()
    has.data[:] = 1  # distinct shingles
    sizes = np.diff(has.indptr)
    transposed = has.T.tocsr()
    pairs, similarities = [], []
    for start in range(0, len(documents), 256):
        shared = (has[start : start + 256] @ transposed).tocoo()
        one, other = shared.row + start, shared.col
        jaccard = shared.data / (sizes[one] + sizes[other] - shared.data)
        chosen = (one < other) & (jaccard >= 0.5)
        pairs.append(np.stack([one[chosen], other[chosen]], axis=1))
        similarities.append(jaccard[chosen])
    return Truth(list(texts), np.concatenate(pairs), np.concatenate(similarities))


def candidates(truth: Truth, fuzzy: str, sources: tuple[NamedInput, ...]) -> np.ndarray:
    """Returns bool[P]: whether the two of a pair share a band. Of copies of one text, one is signed."""
    tables = [read_all(f"{fuzzy}/signatures/{source.name}") for source in sources]
    table = pa.concat_tables(tables)
    rows = {identifier: row for row, identifier in enumerate(table["id"].to_pylist())}
    places = np.array([rows[truth.documents[number][1]] for number in truth.pairs.ravel().tolist()]).reshape(-1, 2)
    bands = np.stack([table[name].to_numpy() for name in table.column_names if name.startswith("band_")], axis=1)
    return (bands[places[:, 0]] == bands[places[:, 1]]).any(axis=1)


def measure(figures: Figures, truth: Truth, config: FuzzyConfig, folder: Path) -> None:
    """Prints what these settings find and remove."""
    sources = config.sources
    out = FolderOut(folder)
    result = fuzzy_duplicates(config, out)
    is_default = (config.bands, config.rows, config.containment) == (DEFAULT.bands, DEFAULT.rows, DEFAULT.containment)
    name = f"{config.bands} x {config.rows}, containment {config.containment}{' (default)' if is_default else ''}"

    def add(figure: str, value: float, unit: str, **bars: float) -> None:
        figures.add(f"{name}: {figure}", value, unit, **(bars if is_default else {}))

    shared = candidates(truth, out.path, sources)
    for level in (0.5, 0.7, 0.8, 0.9):
        at = truth.jaccard >= level
        bars = {"at_least": 0.99} if level >= 0.8 else {}
        add(f"candidates of pairs at J >= {level}", float(np.mean(shared[at])), "share", **bars)

    removed = _hits(config.exact, sources) | (fuzzy := _hits(out.path, sources))
    is_kept = np.array([document not in removed for document in truth.documents])
    both = is_kept[truth.pairs[:, 0]] & is_kept[truth.pairs[:, 1]]
    alike = truth.jaccard >= 0.9
    add("near-duplicates removed", result.removed, "documents")
    add("largest cluster", result.largest_cluster, "documents")
    add("pairs at J >= 0.9 both kept", float(np.mean(both[alike])), "share", at_most=0.01)
    peered = np.zeros(len(truth.documents), dtype=bool)
    for one, other in ((0, 1), (1, 0)):
        held = is_kept[truth.pairs[:, other]]
        peered[truth.pairs[held, one]] = True
    lonely = int(np.count_nonzero(~is_kept & ~peered))
    add("removed without a kept peer at J >= 0.5", lonely, "documents", at_most=0)
    survivors = {(row["kept_source"], row["kept_id"]) for row in fuzzy.values()}
    add("groups without exactly one survivor", len(survivors & set(removed)), "groups", at_most=0)


def _hits(path: str, sources: tuple[NamedInput, ...]) -> dict[Document, dict]:
    """Returns the rows of the sparse tables of a step."""
    return {(each.name, row["id"]): row for each in sources for row in read_all(f"{path}/{each.name}").to_pylist()}


def main() -> int:
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        sources, texts = choose(Path(folder, "documents"))
        figures.add("documents of the truth set", len(texts), "documents", at_least=NUM_DOCUMENTS)
        truth = all_pairs(texts)
        for level in (0.5, 0.7, 0.8, 0.9):
            figures.add(f"pairs at J >= {level}", int(np.count_nonzero(truth.jaccard >= level)), "pairs")
        exact = FolderOut(Path(folder, "exact"))
        copies = exact_duplicates(ExactConfig(sources=sources), exact)
        figures.add("copies of one text in two sources, left out first", copies.removed, "documents")
        for bands, rows in SETTINGS:
            for containment in CONTAINMENTS:
                config = FuzzyConfig(
                    sources=sources, exact=exact.path, bands=bands, rows=rows, containment=containment
                )  # fmt: skip
                out = Path(folder, f"fuzzy-{bands}-{rows}-{containment}")
                measure(figures, truth, config, out)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
