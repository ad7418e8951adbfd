"""Features of texts, and the index of those of the benchmarks.

A feature is the hash of an n-gram of words inside one paragraph, or, for a paragraph of fewer words than that, of the
whole paragraph: short items would otherwise give nothing (elsewhere verbatim recall was 54 % for that reason).
Paragraphs below `shortest_words` give nothing ("...", "A."), unless the whole text has none longer: then the text
counts as one paragraph. Features without a letter (tables of numbers) are left out. Both sides make features by the
same function; of a record, the n-grams that run across its paragraphs are features too, for copies that lost their
blank lines.

The index is exact: sorted 64-bit hashes (160 MB for 20 million) that know which records they come from, so that every
removal can be traced to a benchmark item. A Bloom filter would be 4 times smaller and could say neither.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steps.decontaminate.words import Words, split_words
from steps.splitmix import finalise

_MULTIPLIER = np.uint64(0xD1342543DE82EF95)
_WHOLE = 0x632BE59BD9B4E019  # keeps whole paragraphs of n words apart from n-grams


@dataclass(frozen=True)
class Features:
    """The features of a batch of texts, in the order of the texts; F features."""

    hashes: np.ndarray
    """uint64[F]."""
    texts: np.ndarray
    """int64[F]: which text of the batch."""
    paragraphs: np.ndarray
    """int64[F]: paragraph number in the batch; a new text starts a new one."""
    firsts: np.ndarray
    """int64[F]: the feature's first word in `words`."""
    lengths: np.ndarray
    """int64[F]: how many words it has: n, or fewer for a whole paragraph."""
    words: Words

    def excerpt(self, feature: int) -> str:
        """Returns the folded text that the feature is the hash of."""
        first = int(self.firsts[feature])
        return self.words.excerpt(first, first + int(self.lengths[feature]) - 1)


def extract_features(
    texts: Sequence[str], ngram_words: int, shortest_words: int, *, of_records: bool = False
) -> Features:
    """Returns all features of a batch of texts, repeats included.

    Args:
        texts: any texts; about 1 MB together is a good batch.
        ngram_words: n.
        shortest_words: paragraphs of fewer words give no feature.
        of_records: adds the n-grams across paragraphs.
    """
    words = split_words(texts)
    paragraphs, begins, sizes = _paragraphs(words, shortest_words)
    parts = [_ngrams(words, words.texts if of_records else paragraphs, ngram_words)]
    for size in range(shortest_words, ngram_words):
        firsts = begins[sizes == size]
        parts.append(_hash_runs(words, firsts, size, np.uint64(_WHOLE * size % 2**64)))
    hashes = np.concatenate([part[0] for part in parts])
    firsts = np.concatenate([part[1] for part in parts])
    lengths = np.concatenate([np.full(len(part[1]), part[2], dtype=np.int64) for part in parts])
    order = np.argsort(firsts, kind="stable")
    hashes, firsts, lengths = hashes[order], firsts[order], lengths[order]
    return Features(hashes, words.texts[firsts], paragraphs[firsts], firsts, lengths, words)


def _paragraphs(words: Words, shortest_words: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each word's paragraph, and each paragraph's first word and number of words.

    A text that has only paragraphs too short to count is one paragraph.
    """
    paragraphs = words.paragraphs
    if not len(paragraphs):
        return paragraphs, paragraphs, paragraphs
    begins, sizes = _runs(paragraphs)
    longest = np.zeros(int(words.texts[-1]) + 1, dtype=np.int64)
    np.maximum.at(longest, words.texts[begins], sizes)
    merged = longest[words.texts] < shortest_words
    if merged.any():
        text_begins, text_sizes = _runs(words.texts)
        paragraphs = np.where(merged, np.repeat(paragraphs[text_begins], text_sizes), paragraphs)
        begins, sizes = _runs(paragraphs)
    return paragraphs, begins, sizes


def _runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where runs of equal values begin, and how long they are."""
    begins = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return begins, np.diff(np.append(begins, len(values)))


def _ngrams(words: Words, paragraphs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, int]:
    if len(paragraphs) < n:
        none = np.zeros(0, dtype=np.int64)
        return none.astype(np.uint64), none, n
    inside = paragraphs[: len(paragraphs) - n + 1] == paragraphs[n - 1 :]
    return _hash_runs(words, np.flatnonzero(inside), n, np.uint64(0))


def _hash_runs(words: Words, firsts: np.ndarray, size: int, tag: np.uint64) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns hashes and first words of the runs of `size` words from `firsts` that have a letter."""
    letters = np.concatenate([[0], np.cumsum(words.has_letter)])
    firsts = firsts[letters[firsts + size] > letters[firsts]]
    hashes = np.full(len(firsts), tag, dtype=np.uint64)
    for offset in range(size):
        hashes = hashes * _MULTIPLIER + words.hashes[firsts + offset]
    return finalise(hashes), firsts, size


@dataclass(frozen=True, kw_only=True)
class Record:
    """One text of a benchmark that training data must not contain."""

    benchmark: str
    """Name that hits are attributed to, e.g. "humaneval/prompt"."""
    name: str
    """Name of the record in it, e.g. "HumanEval/12", or a held-out document's id."""
    text: str
    short: bool
    """Whether a whole paragraph of fewer than n words counts as a feature, where the record has no longer one."""
    keeps_frequent: bool
    """Whether its features count even where they are frequent in one source of documents."""


@dataclass(frozen=True)
class FeatureIndex:
    """The features of all records; U distinct ones, R records."""

    records: tuple[Record, ...]
    hashes: np.ndarray
    """uint64[U], sorted, distinct."""
    starts: np.ndarray
    """int64[U + 1]: the records of feature u are `members[starts[u] : starts[u + 1]]`."""
    members: np.ndarray
    """int64: record numbers, ascending for each feature."""
    features_of_record: np.ndarray
    """int64[R]: how many distinct features each record gave."""
    ngram_words: int
    shortest_words: int
    keeps_frequent: np.ndarray
    """bool[U]: whether one of its records says so."""

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """Returns int64: the number of each hash's feature, -1 for those that no benchmark has."""
        if not len(self.hashes):
            return np.full(len(hashes), -1, dtype=np.int64)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, places, -1)

    def excerpts(self, chosen: Sequence[int]) -> list[str]:
        """Returns the folded texts that some features are the hashes of, found again in their first records."""
        by_record: dict[int, list[int]] = {}
        for feature in chosen:
            by_record.setdefault(int(self.members[self.starts[feature]]), []).append(feature)
        texts: dict[int, str] = {}
        for record, members in by_record.items():
            text = self.records[record].text
            features = extract_features([text], self.ngram_words, self.shortest_words, of_records=True)
            place = dict(zip(features.hashes.tolist(), range(len(features.hashes)), strict=True))
            texts |= {feature: features.excerpt(place[int(self.hashes[feature])]) for feature in members}
        return [texts[feature] for feature in chosen]

    def records_of(self, feature: int) -> list[Record]:
        """Returns the records that have the feature."""
        return [self.records[member] for member in self.members[self.starts[feature] : self.starts[feature + 1]]]


def batches(texts: Sequence[str], characters: int = 1_000_000) -> Iterator[tuple[int, int]]:
    """Yields (first, last) of consecutive texts with about so many characters together, which bounds working memory."""
    first, size = 0, 0
    for number, text in enumerate(texts, start=1):
        size += len(text)
        if size >= characters or number == len(texts):
            yield first, number
            first, size = number, 0


def build_index(records: Sequence[Record], ngram_words: int, shortest_words: int) -> FeatureIndex:
    """Returns the index of the features of all records; a feature of several records is attributed to each.

    Args:
        records: texts of all benchmarks.
        ngram_words: n.
        shortest_words: records shorter than this give no feature.
    """
    short = np.array([record.short for record in records], dtype=bool)
    parts = [np.zeros((0, 2), dtype=np.uint64)]
    for first, last in batches([record.text for record in records]):
        texts = [record.text for record in records[first:last]]
        features = extract_features(texts, ngram_words, shortest_words, of_records=True)
        ends = features.firsts + features.lengths - 1
        is_long = features.lengths == ngram_words
        in_paragraph = features.words.paragraphs[features.firsts] == features.words.paragraphs[ends]
        takes_short = short[first:last].copy()
        takes_short[features.texts[is_long & in_paragraph]] = False
        taken = is_long | takes_short[features.texts]
        numbers = (features.texts + first).astype(np.uint64)
        parts.append(np.unique(np.stack([features.hashes, numbers], axis=1)[taken], axis=0))
    pairs = np.unique(np.concatenate(parts), axis=0)
    hashes, starts = np.unique(pairs[:, 0], return_index=True)
    members = pairs[:, 1].astype(np.int64)
    starts = np.append(starts, len(members))
    keeps = np.array([record.keeps_frequent for record in records], dtype=bool)[members]
    return FeatureIndex(
        records=tuple(records),
        hashes=hashes,
        starts=starts,
        members=members,
        features_of_record=np.bincount(members, minlength=len(records)),
        ngram_words=ngram_words,
        shortest_words=shortest_words,
        keeps_frequent=np.logical_or.reduceat(keeps, starts[:-1]) if len(hashes) else keeps,
    )
