"""Features of texts: what is compared between benchmarks and documents.

A feature is the hash of an n-gram of words inside one paragraph, or, for a paragraph of fewer words than that, of the
whole paragraph: short items would otherwise give nothing (elsewhere verbatim recall was 54 % for that reason).
Paragraphs below `shortest_words` give nothing ("...", "A."), unless the whole text has none longer: then the text
counts as one paragraph. Features without a letter (tables of numbers) are left out. Both sides make features by the
same kernel; of a record, the n-grams that run across its paragraphs are features too, for copies that lost their
blank lines.

A run is a short record's whole text, looked for inside longer paragraphs: `runs_of` gives the hashes that such a record
would have, at every place of a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numba
import numpy as np

from steps.decontaminate.words import Words, split_words
from steps.splitmix import FIRST_MULTIPLIER, SECOND_MULTIPLIER

_MULTIPLIER = np.uint64(0xD1342543DE82EF95)
_BITS_A_HASH = 16
_WHOLE = np.uint64(0x632BE59BD9B4E019)  # keeps whole paragraphs of n words apart from n-grams


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
    return features_of(split_words(texts), ngram_words, shortest_words, of_records=of_records)


def features_of(words: Words, ngram_words: int, shortest_words: int, *, of_records: bool = False) -> Features:
    """Returns all features of words that were split already; see `extract_features`."""
    capacity = (
        2 * len(words.hashes) if of_records else len(words.hashes)
    )  # at one word, an n-gram and a whole paragraph
    hashes = np.empty(capacity, dtype=np.uint64)
    places = np.empty((3, capacity), dtype=np.int64)
    count = _extract(
        words.hashes, words.has_letter, words.texts, words.paragraphs, ngram_words, shortest_words, of_records,
        hashes, places,
    )  # fmt: skip
    firsts, lengths, paragraphs = places[:, :count]
    return Features(hashes[:count], words.texts[firsts], paragraphs, firsts, lengths, words)


def bitmap_of(hashes: np.ndarray) -> np.ndarray:
    """Returns uint64[2^k / 64]: bit h is set if a hash begins with the k bits of h; 16 to 32 bits a hash, at least 2^16.

    Of 64-bit hashes that are not among them, it turns away at least 15 of 16.
    """
    bits = max(16, (len(hashes) * _BITS_A_HASH).bit_length())
    bitmap = np.zeros(2**bits // 64, dtype=np.uint64)
    places = hashes >> np.uint64(64 - bits)
    np.bitwise_or.at(bitmap, places >> np.uint64(6), np.uint64(1) << (places & np.uint64(63)))
    return bitmap


def runs_of(features: Features, lengths: Sequence[int], bitmap: np.ndarray) -> Features:
    """Returns the runs of some lengths inside the paragraphs of a batch, as features.

    Args:
        features: of the batch.
        lengths: words in a run. Paragraphs of just that length are left out: `features` has them.
        bitmap: of the hashes that are looked for; runs that it turns away are left out.
    """
    words = features.words
    parts = [(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for length in lengths:
        hashes = np.empty(len(words.hashes), dtype=np.uint64)
        firsts = np.empty(len(words.hashes), dtype=np.int64)
        count = _runs(words.hashes, words.has_letter, words.paragraphs, length, bitmap, hashes, firsts)
        parts.append((hashes[:count], firsts[:count], np.full(count, length, dtype=np.int64)))
    hashes, firsts, sizes = (np.concatenate([part[column] for part in parts]) for column in range(3))
    return Features(hashes, words.texts[firsts], words.paragraphs[firsts], firsts, sizes, words)


def batches(sizes: Sequence[int], limit: int = 1_000_000) -> Iterator[tuple[int, int]]:
    """Yields (first, last) of consecutive texts of about `limit` characters or bytes together, which bounds memory.

    Args:
        sizes: of the texts.
        limit: a batch ends with the text that reaches it.
    """
    first, size = 0, 0
    for number, more in enumerate(sizes, start=1):
        size += more
        if size >= limit or number == len(sizes):
            yield first, number
            first, size = number, 0


@numba.njit(cache=True, inline="always")
def _mix(value):
    """`steps.splitmix.finalise` of one value, for the kernels below."""
    value = (value ^ (value >> np.uint64(30))) * FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True, inline="always")
def _power(exponent):
    power = np.uint64(1)
    for _ in range(exponent):
        power *= _MULTIPLIER
    return power


@numba.njit(cache=True, nogil=True)
def _extract(words, has_letter, texts, paragraphs, n, shortest, of_records, hashes, places):
    """Writes all features and returns how many there are; `places` gets first word, length, paragraph.

    The hash of an n-gram is a polynomial over its word hashes, which rolls from one place to the next.
    """
    leading = _power(n - 1)
    count, text_begin = 0, 0
    while text_begin < words.size:
        text_end, longest, size = text_begin, 0, 0
        while text_end < words.size and texts[text_end] == texts[text_begin]:
            same = text_end > text_begin and paragraphs[text_end] == paragraphs[text_end - 1]
            size = size + 1 if same else 1
            longest = max(longest, size)
            text_end += 1
        merged = longest < shortest
        begin = text_begin
        while begin < text_end:
            end = begin + 1
            while end < text_end and (merged or paragraphs[end] == paragraphs[begin]):
                end += 1
            size = end - begin
            if shortest <= size < n:
                state, letters = _WHOLE * np.uint64(size), False
                for word in range(begin, end):
                    state = state * _MULTIPLIER + words[word]
                    letters |= has_letter[word]
                if letters:
                    hashes[count] = _mix(state)
                    places[0, count], places[1, count], places[2, count] = begin, size, paragraphs[begin]
                    count += 1
            state, letters = np.uint64(0), 0
            for first in range(begin, min(end, (text_end if of_records else end) - n + 1)):
                if first == begin:
                    for word in range(begin, begin + n):
                        state = state * _MULTIPLIER + words[word]
                        letters += has_letter[word]
                else:
                    state = (state - words[first - 1] * leading) * _MULTIPLIER + words[first + n - 1]
                    letters += has_letter[first + n - 1]
                    letters -= has_letter[first - 1]
                if letters:
                    hashes[count] = _mix(state)
                    places[0, count], places[1, count], places[2, count] = first, n, paragraphs[begin]
                    count += 1
            begin = end
        text_begin = text_end
    return count


@numba.njit(cache=True, nogil=True)
def _runs(words, has_letter, paragraphs, length, bitmap, hashes, firsts):
    """Writes the runs of a length inside longer paragraphs that the bitmap lets pass, and returns how many there are."""
    shift = np.uint64(64)
    size = bitmap.size << 6
    while size > 1:
        shift -= np.uint64(1)
        size >>= 1
    leading, tag = _power(length - 1), _WHOLE * np.uint64(length)
    for _ in range(length):
        tag *= _MULTIPLIER
    count, begin = 0, 0
    while begin < words.size:
        end = begin + 1
        while end < words.size and paragraphs[end] == paragraphs[begin]:
            end += 1
        if end - begin > length:
            state, letters = np.uint64(0), 0
            for word in range(begin, begin + length):
                state = state * _MULTIPLIER + words[word]
                letters += has_letter[word]
            for first in range(begin, end - length + 1):
                if first > begin:
                    state = (state - words[first - 1] * leading) * _MULTIPLIER + words[first + length - 1]
                    letters += has_letter[first + length - 1]
                    letters -= has_letter[first - 1]
                value = _mix(state + tag)
                place = value >> shift
                if letters and bitmap[place >> np.uint64(6)] >> (place & np.uint64(63)) & np.uint64(1):
                    hashes[count] = value
                    firsts[count] = first
                    count += 1
        begin = end
    return count
