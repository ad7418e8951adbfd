"""Text to word hashes and word n-gram hashes: the one tokeniser that fuzzy deduplication and its verification share.

Words are compared after folding (`folding.py`). A word is a run of letters, marks and digits; everything else separates.
Scripts written without spaces (Han, Kana, Thai, Lao, Khmer, Burmese) give one word per code point. Numbers are words like
others. (Decontamination splits by other rules; steps/decontaminate/words.py says which and why.)

The kernel goes over the UTF-8 bytes of a whole Arrow column, and makes no Python object of a text but of those that have
to be folded as a whole. Kernels are compiled by numba on first use (some seconds, cached beside this file). None calls a
kernel of another module: numba's cache is keyed by one file, and would go stale.
"""

from typing import NamedTuple

import numba
import numpy as np
import pyarrow as pa

from steps.dedup.folding import INVISIBLE, NOT_ASCII, SINGLE, SPECIAL, WHOLE_TEXT, WORD, Tables, fold, tables
from steps.splitmix import FIRST_MULTIPLIER, SECOND_MULTIPLIER

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_NOT_HASHED = -1
_SPARE_PLACES = 16
"""What a text may take of the hashes besides one place for every two of its bytes."""


class Hashes(NamedTuple):
    """The words, or the n-grams, of D texts."""

    values: np.ndarray
    """uint64[...]: those of one text lie together, in order."""
    starts: np.ndarray
    """int64[D]: where each text's begin."""
    ends: np.ndarray
    """int64[D]: where they end."""

    def of(self, row: int) -> np.ndarray:
        """Returns those of one text, uint64[W]."""
        return self.values[self.starts[row] : self.ends[row]]

    def where(self, chosen: np.ndarray) -> "Hashes":
        """Returns those of the texts for which bool[D] `chosen` is true."""
        return Hashes(self.values, self.starts[chosen], self.ends[chosen])

    @property
    def counts(self) -> np.ndarray:
        """int64[D]: how many each text has."""
        return self.ends - self.starts


@numba.njit(cache=True)
def _mix(value):
    """`steps.splitmix.finalise` of one value, for the kernels below."""
    value = (value ^ (value >> np.uint64(30))) * FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True)
def _code_point_at(data, position, end):
    """Returns (code point, its length in bytes); a length of 0 means that the bytes are no UTF-8."""
    lead = data[position]
    if lead < 0xC2 or lead > 0xF4:
        return np.uint32(0), 0
    if lead < 0xE0:
        length, least, value = 2, np.uint32(0x80), np.uint32(lead & 0x1F)
    elif lead < 0xF0:
        length, least, value = 3, np.uint32(0x800), np.uint32(lead & 0x0F)
    else:
        length, least, value = 4, np.uint32(0x10000), np.uint32(lead & 0x07)
    if position + length > end:
        return np.uint32(0), 0
    for byte in data[position + 1 : position + length]:
        if byte & 0xC0 != 0x80:
            return np.uint32(0), 0
        value = np.uint32(value << np.uint32(6) | np.uint32(byte & 0x3F))
    return value, length if least <= value < 0x110000 else 0


@numba.njit(cache=True)
def _take(code_point, classes, state, hashes, count):
    """Goes on by one code point; returns the state of the word begun (_FNV_OFFSET if none is) and the words so far."""
    kind = classes[code_point]
    is_word = kind == WORD
    hashes[count] = state  # counts only if a word ends here: cheaper than a branch that nobody can predict
    count += (not is_word) & (state != _FNV_OFFSET)
    if kind == SINGLE:
        hashes[count] = (_FNV_OFFSET ^ np.uint64(code_point)) * _FNV_PRIME
        count += 1
    return (state ^ np.uint64(code_point)) * _FNV_PRIME if is_word else _FNV_OFFSET, count


@numba.njit(cache=True)
def _end_text(state, hashes, first, count):
    """Ends the text's last word, and mixes its hashes, which begin at `first`; returns where they end."""
    hashes[count] = state
    count += state != _FNV_OFFSET
    for place in range(first, count):
        hashes[place] = _mix(hashes[place])
    return count


@numba.njit(cache=True)
def _hash_text(data, position, end, table, hashes, first):
    """Writes the word hashes of one text from `first` on; returns where they end, or _NOT_HASHED.

    It takes at most a place for every two bytes, and _SPARE_PLACES.
    """
    limit = first + (end - position) // 2 + _SPARE_PLACES
    count = first
    state = _FNV_OFFSET
    last_combining = np.uint8(0)
    while position < end:
        letter = np.uint64(table.of_bytes[data[position]])
        if letter != NOT_ASCII:
            # `_take`, for what is a word of its own nowhere
            is_word = letter != 0
            hashes[count] = state
            count += (not is_word) & (state != _FNV_OFFSET)
            state = (state ^ letter) * _FNV_PRIME if is_word else _FNV_OFFSET
            last_combining = np.uint8(0)
            position += 1
            continue
        code_point, length = _code_point_at(data, position, end)
        if length == 0:
            return _NOT_HASHED
        position += length
        entry = table.folded[code_point]
        if entry == INVISIBLE:
            continue
        combining = table.combining[code_point]
        if entry == WHOLE_TEXT or np.uint8(0) < combining < last_combining:
            return _NOT_HASHED
        last_combining = combining
        if entry < SPECIAL:
            state, count = _take(entry, table.classes, state, hashes, count)
            continue
        at = entry - SPECIAL
        if count + table.expansions[at] + (end - position) // 2 + 2 > limit:
            return _NOT_HASHED
        for each in range(at + 1, at + 1 + table.expansions[at]):
            state, count = _take(table.expansions[each], table.classes, state, hashes, count)
    return _end_text(state, hashes, first, count)


@numba.njit(cache=True)
def _hash_texts(data, offsets, table, hashes, starts, ends):
    """Fills starts and ends of all texts; the end of one that has to be folded as a whole is _NOT_HASHED."""
    count = 0
    for row in range(starts.size):
        starts[row] = count
        ends[row] = _hash_text(data, offsets[row], offsets[row + 1], table, hashes, count)
        if ends[row] != _NOT_HASHED:
            count = ends[row]
    return count


@numba.njit(cache=True)
def _hash_folded(code_points, classes, hashes):
    state = _FNV_OFFSET
    count = 0
    for code_point in code_points:
        state, count = _take(code_point, classes, state, hashes, count)
    return _end_text(state, hashes, 0, count)


@numba.njit(cache=True)
def _hash_ngrams(words, starts, ends, length, hashes, ngram_starts):
    for row in range(starts.size):
        taken = min(length, ends[row] - starts[row])
        for offset in range(ngram_starts[row + 1] - ngram_starts[row]):
            state = np.uint64(taken)  # a text of two words never equals the beginning of a longer one
            for word in words[starts[row] + offset : starts[row] + offset + taken]:
                state = _mix(state * _FNV_PRIME ^ word)
            hashes[ngram_starts[row] + offset] = state


def word_hashes(texts: pa.StringArray) -> Hashes:
    """Returns one hash per word of each folded text, in order.

    Args:
        texts: without nulls.

    Raises:
        UnicodeDecodeError: a text is not UTF-8.
    """
    data, offsets = _string_buffers(texts)
    num_texts = len(texts)
    starts, ends = np.empty(num_texts, dtype=np.int64), np.empty(num_texts, dtype=np.int64)
    # A word takes two bytes or more but for the last, so half a text's bytes are enough, and some for what grows in folding.
    hashes = np.empty((offsets[-1] - offsets[0]) // 2 + _SPARE_PLACES * num_texts, dtype=np.uint64)
    table = tables()
    count = _hash_texts(data, offsets, table, hashes, starts, ends)
    pieces = [hashes[:count]]
    for row in np.flatnonzero(ends == _NOT_HASHED):
        piece = _whole_text_hashes(texts[row].as_py(), table)
        starts[row], ends[row] = count, count + piece.size
        count += piece.size
        pieces.append(piece)
    return Hashes(np.concatenate(pieces) if len(pieces) > 1 else pieces[0], starts, ends)


def _whole_text_hashes(text: str, table: Tables) -> np.ndarray:
    code_points = np.frombuffer(fold(text).encode("utf-32-le"), dtype=np.uint32)
    hashes = np.empty(code_points.size + 1, dtype=np.uint64)
    return hashes[: _hash_folded(code_points, table.classes, hashes)]


def _string_buffers(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """Returns uint8[...] the bytes, and int64[D + 1] where in them the texts lie."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, places, content = texts.buffers()
    if len(texts) == 0:
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    offsets = np.frombuffer(places, dtype=width)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(content or b"", dtype=np.uint8), offsets


def ngram_hashes(words: Hashes, length: int) -> Hashes:
    """Returns one hash per run of `length` consecutive words of each text, in order and with repeats.

    Args:
        words: from `word_hashes`.
        length: words in an n-gram, at least 1.

    Returns:
        max(1, W - length + 1) of a text of W words: one of fewer words is one n-gram of all of them. None for W = 0.
    """
    counts = np.where(words.counts > 0, np.maximum(words.counts - length + 1, 1), 0)
    starts = np.concatenate(([0], np.cumsum(counts)))
    values = np.empty(starts[-1], dtype=np.uint64)
    _hash_ngrams(words.values, words.starts, words.ends, length, values, starts)
    return Hashes(values, starts[:-1], starts[1:])
