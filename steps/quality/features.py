"""What the quality student sees of a document: its embedding, hashed words and word pairs, and a few surface measures.

Three blocks side by side, each of about unit length so that one ridge penalty suits all: the embedding (d columns), the
hashed 1- and 2-grams of the first characters (presence, unit length), and standardised surface measures. A document read
through windows has such a row for each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SURFACE = ("log_characters", "letter_share", "digit_share", "log_mean_line", "distinct_word_share")
"""Names of the surface measures, in order."""
_SURFACE_WEIGHT = 0.2
_CLIP = 4.0  # standard deviations: one odd document must not be scored by its length alone
_TEXTS_AT_ONCE = 4_096  # hashed together; bounds the memory that it takes


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    hash_bits: int = 12
    """Words and word pairs are hashed to this many bits."""
    max_characters: int = 4_000
    """Only a text's first characters are read for words and surface measures (its length is its whole length)."""


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """What is read off n documents, before anything is fitted: a row a document, or a row for each of its windows."""

    vectors: np.ndarray
    """float32[r, d]: embeddings."""
    hashed: Any
    """scipy csr_array of float32[r, 2**hash_bits]: which words and word pairs, each row of unit length."""
    surface: np.ndarray
    """float64[r, 5], not yet standardised."""
    starts: np.ndarray
    """int64[n]: the first row of each document, rising; all rows up to the next one's are its windows."""

    def take(self, documents: np.ndarray) -> "Blocks":
        """Returns some of the documents, given as int[m] or bool[n], with all their rows."""
        documents = np.arange(len(self.starts))[documents]
        counts = self.windows[documents]
        starts = np.cumsum(counts) - counts
        rows = np.repeat(self.starts[documents] - starts, counts) + np.arange(counts.sum())
        return Blocks(vectors=self.vectors[rows], hashed=self.hashed[rows], surface=self.surface[rows], starts=starts)

    @property
    def windows(self) -> np.ndarray:
        """int64[n]: rows of each document."""
        return np.diff(self.starts, append=len(self.vectors))

    def document_means(self, values: np.ndarray) -> np.ndarray:
        """Returns the mean of values, float64[r, ...], over each document's rows, float64[n, ...]."""
        if len(values) == len(self.starts):
            return values
        return np.add.reduceat(values, self.starts) / self.windows.reshape(-1, *[1] * (values.ndim - 1))

    def standardised(self, surface_center: np.ndarray, surface_spread: np.ndarray) -> np.ndarray:
        """Returns the surface measures as a student sees them, float64[r, 5]."""
        return np.clip((self.surface - surface_center) / surface_spread, -_CLIP, _CLIP) * _SURFACE_WEIGHT

    def matrix(self, surface_center: np.ndarray, surface_spread: np.ndarray) -> np.ndarray:
        """Returns the blocks side by side, surface measures standardised, float64[n, d + 2**hash_bits + 5].

        A document of several windows has their mean: a linear student's score of it is then the mean of its windows' scores.
        """
        surface = self.standardised(surface_center, surface_spread)
        return self.document_means(np.concatenate([self.vectors, self.hashed.toarray(), surface], axis=1))


def surface_measures(texts: list[str], max_characters: int, lengths: Sequence[int] | None = None) -> np.ndarray:
    """Returns float64[n, 5], the measures of `SURFACE` for each text.

    Args:
        texts: n texts.
        max_characters: of a text that are read.
        lengths: characters of the documents that the texts are parts of; None if each is a whole one.
    """
    from steps.quality.words import character_counts, hashed_words

    heads = [text[:max_characters] for text in texts]
    counts = character_counts(heads)
    _, _, words, distinct = hashed_words(heads, 4)
    return _measures(lengths or [len(text) for text in texts], counts, words, distinct)


def _measures(lengths: Sequence[int], counts: np.ndarray, words: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    size = np.maximum(1, counts[:, 0])
    measures = (
        np.log1p(lengths),
        counts[:, 1] / size,
        counts[:, 2] / size,
        np.log1p(size / (1 + counts[:, 3])),
        distinct / np.maximum(1, words),
    )
    return np.stack(measures, axis=1)


def read_blocks(
    texts: list[str],
    vectors: np.ndarray,
    settings: FeatureSettings,
    *,
    lengths: Sequence[int] | None = None,
    starts: np.ndarray | None = None,
) -> Blocks:
    """Returns the blocks of r texts.

    Args:
        texts: r texts, whole documents or windows of them.
        vectors: float32[r, d], their embeddings.
        settings: what is read of a text.
        lengths: characters of the document that each text is a window of; None if texts are documents.
        starts: int64[n], the first text of each document; None if texts are documents.
    """
    from scipy.sparse import csr_array

    from steps.quality.words import character_counts, hashed_words

    columns, ends, surfaces, total = [], [np.zeros(1, dtype=np.int64)], [np.zeros((0, len(SURFACE)))], 0
    sizes = lengths or [len(text) for text in texts]
    for first in range(0, len(texts), _TEXTS_AT_ONCE):
        heads = [text[: settings.max_characters] for text in texts[first : first + _TEXTS_AT_ONCE]]
        found, row_ends, words, distinct = hashed_words(heads, settings.hash_bits)
        columns.append(found)
        ends.append(row_ends + total)
        total += len(found)
        surfaces.append(_measures(sizes[first : first + len(heads)], character_counts(heads), words, distinct))
    indices, row_ends = np.concatenate([np.zeros(0, dtype=np.int32), *columns]), np.concatenate(ends)
    counts = np.diff(row_ends)
    data = np.repeat((1 / np.sqrt(np.maximum(1, counts))).astype(np.float32), counts)
    hashed = csr_array((data, indices, row_ends), shape=(len(texts), 2**settings.hash_bits))
    return Blocks(
        vectors=vectors,
        hashed=hashed,
        surface=np.concatenate(surfaces),
        starts=np.arange(len(texts)) if starts is None else starts,
    )


def near_duplicate_groups(blocks: Blocks, threshold: float = 0.5) -> np.ndarray:
    """Returns int64[n]: documents with the same number share at least `threshold` of their words and word pairs.

    Groups are the connected components of pairs whose Jaccard similarity (of hashed words and pairs) reaches the
    threshold. They keep copies of one text, such as a licence with another name in it, on one side of a split.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    # Of a document's windows, all words and pairs count.
    rows = np.repeat(np.arange(len(blocks.starts)), blocks.windows)
    by_document = csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))))
    present = (by_document @ blocks.hashed > 0).astype(np.float32)
    shared = (present @ present.T).toarray()
    sizes = present.sum(axis=1)
    jaccard = shared / np.maximum(sizes[:, None] + sizes[None, :] - shared, 1)
    return connected_components(csr_array(jaccard >= threshold), directed=False)[1].astype(np.int64)
