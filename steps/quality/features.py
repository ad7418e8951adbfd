"""What the quality student sees of a document: its embedding, hashed words and word pairs, and a few surface measures.

Three blocks side by side, each of about unit length so that one ridge penalty suits all: the embedding (d columns), the
hashed 1- and 2-grams of the first characters (presence, unit length), and standardised surface measures.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

SURFACE = ("log_characters", "letter_share", "digit_share", "log_mean_line", "distinct_word_share")
"""Names of the surface measures, in order."""
_SURFACE_WEIGHT = 0.2
_CLIP = 4.0  # standard deviations: one odd document must not be scored by its length alone
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    hash_bits: int = 12
    """Words and word pairs are hashed to this many bits."""
    max_characters: int = 4_000
    """Only a document's first characters are read for words and surface measures (its length is its whole length)."""


def surface_measures(texts: list[str], max_characters: int) -> np.ndarray:
    """Returns float64[n, 5], the measures of `SURFACE` for each text."""
    rows = []
    for text in texts:
        head = text[:max_characters]
        size = max(1, len(head))
        words = _WORD.findall(head.lower())
        rows.append(
            (
                np.log1p(len(text)),
                len(_LETTER.findall(head)) / size,
                len(_DIGIT.findall(head)) / size,
                np.log1p(size / (1 + head.count("\n"))),
                len(set(words)) / max(1, len(words)),
            )
        )
    return np.array(rows, dtype=np.float64).reshape(len(texts), len(SURFACE))


def hashed_ngrams(texts: list[str], settings: FeatureSettings) -> np.ndarray:
    """Returns float32[n, 2**hash_bits]: which words and word pairs a text has, each row of unit length."""
    vectorizer = HashingVectorizer(
        n_features=2**settings.hash_bits,
        ngram_range=(1, 2),
        binary=True,
        norm="l2",
        token_pattern=r"(?u)\b\w+\b",
        dtype=np.float32,
    )
    hashed: Any = vectorizer.transform([text[: settings.max_characters] for text in texts])
    return hashed.toarray()


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """What is read off n documents, before anything is fitted."""

    vectors: np.ndarray
    """float32[n, d]: embeddings."""
    hashed: np.ndarray
    """float32[n, 2**hash_bits]."""
    surface: np.ndarray
    """float64[n, 5], not yet standardised."""

    def take(self, rows: np.ndarray) -> "Blocks":
        return Blocks(vectors=self.vectors[rows], hashed=self.hashed[rows], surface=self.surface[rows])

    def matrix(self, surface_center: np.ndarray, surface_spread: np.ndarray) -> np.ndarray:
        """Returns the blocks side by side, float64[n, d + 2**hash_bits + 5], surface measures standardised."""
        surface = np.clip((self.surface - surface_center) / surface_spread, -_CLIP, _CLIP) * _SURFACE_WEIGHT
        return np.concatenate([self.vectors, self.hashed, surface], axis=1)


def read_blocks(texts: list[str], vectors: np.ndarray, settings: FeatureSettings) -> Blocks:
    """Returns the blocks of n texts and their embeddings, float32[n, d]."""
    surface = surface_measures(texts, settings.max_characters)
    return Blocks(vectors=vectors, hashed=hashed_ngrams(texts, settings), surface=surface)


def near_duplicate_groups(hashed: np.ndarray, threshold: float = 0.5) -> np.ndarray:
    """Returns int64[n]: documents with the same number share at least `threshold` of their words and word pairs.

    Groups are the connected components of pairs whose Jaccard similarity (of hashed words and pairs) reaches the
    threshold. They keep copies of one text, such as a licence with another name in it, on one side of a split.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    present = (hashed != 0).astype(np.float32)
    shared = present @ present.T
    sizes = present.sum(axis=1)
    jaccard = shared / np.maximum(sizes[:, None] + sizes[None, :] - shared, 1)
    return connected_components(csr_array(jaccard >= threshold), directed=False)[1].astype(np.int64)
