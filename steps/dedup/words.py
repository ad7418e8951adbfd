"""Text to word hashes and word n-gram hashes: the one tokeniser that fuzzy deduplication and its verification share.

Words are compared after folding: zero-width characters out, NFKC (so that composed, decomposed and full-width spellings
agree), case folding. A word is a run of letters, marks and digits; everything else separates. Scripts written
without spaces (Han, Kana, Thai, Lao, Khmer, Burmese) give one word per code point. Numbers are words like others.
(Decontamination splits by other rules; steps/decontaminate/words.py says which and why.)

Kernels are compiled by numba on first use (about 2 s, cached beside this file). None calls a kernel of another module:
numba's cache is keyed by one file, and would go stale.
"""

import functools
import re
import unicodedata

import numba
import numpy as np

from steps.splitmix import FIRST_MULTIPLIER, SECOND_MULTIPLIER
from steps.unspaced_scripts import UNSPACED_RANGES

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]"
)

_SEPARATOR, _WORD, _SINGLE = 0, 1, 2
_LAST_LISTED = 0x20000
"""Every code point below is looked up; the two planes from here on hold ideographs, the rest holds no words."""
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


def fold(text: str) -> str:
    """Returns the text without differences of case, width, composition and zero-width characters."""
    if text.isascii():
        return text.lower()
    # Invisible characters go first: one between a letter and its accent would keep NFKC from composing them.
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()


@functools.cache
def _code_point_classes() -> np.ndarray:
    """Returns uint8[0x110000]: whether a code point separates, belongs to a word, or is a word by itself."""
    classes = np.zeros(0x110000, dtype=np.uint8)
    for code_point in range(_LAST_LISTED):
        if unicodedata.category(chr(code_point))[0] in "LMN":
            classes[code_point] = _WORD
    classes[_LAST_LISTED:0x40000] = _SINGLE
    for first, last in UNSPACED_RANGES:
        block = classes[first : last + 1]
        block[block == _WORD] = _SINGLE
    return classes


@numba.njit(cache=True)
def _mix(value):
    """`steps.splitmix.finalise` of one value, for the kernels below."""
    value = (value ^ (value >> np.uint64(30))) * FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True)
def _hash_words(code_points, classes):
    hashes = np.empty(code_points.size, dtype=np.uint64)
    num_words = 0
    state = _FNV_OFFSET
    inside = False
    for code_point in code_points:
        kind = classes[code_point]
        if kind == _WORD:
            state = (state ^ np.uint64(code_point)) * _FNV_PRIME
            inside = True
            continue
        if inside:
            hashes[num_words] = _mix(state)
            num_words += 1
            state = _FNV_OFFSET
            inside = False
        if kind == _SINGLE:
            hashes[num_words] = _mix((_FNV_OFFSET ^ np.uint64(code_point)) * _FNV_PRIME)
            num_words += 1
    if inside:
        hashes[num_words] = _mix(state)
        num_words += 1
    return hashes[:num_words].copy()


@numba.njit(cache=True)
def _hash_ngrams(words, length):
    taken = min(length, words.size)
    hashes = np.empty(words.size - taken + 1, dtype=np.uint64)
    for start in range(hashes.size):
        state = np.uint64(taken)  # a text of two words never equals the beginning of a longer one
        for offset in range(taken):
            state = _mix(state * _FNV_PRIME ^ words[start + offset])
        hashes[start] = state
    return hashes


def word_hashes(text: str) -> np.ndarray:
    """Returns uint64[W], one hash per word of the folded text, in order; empty when it has none."""
    code_points = np.frombuffer(fold(text).encode("utf-32-le"), dtype=np.uint32)
    return _hash_words(code_points, _code_point_classes())


def ngram_hashes(words: np.ndarray, length: int) -> np.ndarray:
    """Returns one hash per run of `length` consecutive words, in order and with repeats.

    Args:
        words: uint64[W] from `word_hashes`.
        length: words in an n-gram, at least 1.

    Returns:
        uint64[max(1, W - length + 1)]: a text of fewer words is one n-gram of all of them. Empty for W = 0.
    """
    if words.size == 0:
        return words
    return _hash_ngrams(words, length)
