"""Words and word pairs of texts, hashed to columns, and counts of characters: what features are made of, in one pass.

The columns are those of scikit-learn's `HashingVectorizer` (lower case, pattern `\\w+`, words and pairs of
neighbours, MurmurHash3 of their UTF-8, presence only), at ten times its speed: a student fitted with one reads with the other.
A word's characters are those of Python's `\\w`, in every script.

Kernels are compiled by numba on first use (some seconds, cached beside this file).
"""

import functools

import numba
import numpy as np

_WORD, _DIGIT = 1, 2
_NEWLINE, _UNDERSCORE = 10, 95
_LAST_LISTED = 0x34000  # nothing from here on is a letter or a digit


@functools.cache
def _classes() -> np.ndarray:
    """Returns uint8[0x110000]: whether a code point belongs to a word (bit 0), and is a decimal digit (bit 1)."""
    classes = np.zeros(0x110000, dtype=np.uint8)
    for code_point in range(_LAST_LISTED):
        each = chr(code_point)
        if each.isalnum() or each == "_":
            classes[code_point] = _WORD | _DIGIT if each.isdecimal() else _WORD
    return classes


@numba.njit(cache=True)
def _code_point(data, place):
    """Returns the code point at a place of valid UTF-8, and the place behind it."""
    first = np.uint32(data[place])
    if first < 0x80:
        return first, place + 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | data[place + 1] & 0x3F, place + 2
    if first < 0xF0:
        return (first & 0x0F) << 12 | (data[place + 1] & 0x3F) << 6 | data[place + 2] & 0x3F, place + 3
    high = (first & 0x07) << 18 | (data[place + 1] & 0x3F) << 12
    return high | (data[place + 2] & 0x3F) << 6 | data[place + 3] & 0x3F, place + 4


@numba.njit(cache=True)
def _count(data, ends, classes, counts):
    start = 0
    for row in range(ends.size):
        place = start
        while place < ends[row]:
            code_point, place = _code_point(data, place)
            kind = classes[code_point]
            counts[row, 0] += 1
            counts[row, 1] += kind == _WORD and code_point != _UNDERSCORE  # a digit has both bits
            counts[row, 2] += kind & _DIGIT != 0
            counts[row, 3] += code_point == _NEWLINE
        start = ends[row]


@numba.njit(cache=True)
def _murmur3(data, start, size):
    """MurmurHash3_x86_32 with seed 0 of `size` bytes (Appleby, public domain), as int32."""
    state = np.uint32(0)
    blocks = size // 4
    for block in range(blocks):
        at = start + 4 * block
        word = np.uint32(data[at]) | np.uint32(data[at + 1]) << np.uint32(8)
        word |= np.uint32(data[at + 2]) << np.uint32(16) | np.uint32(data[at + 3]) << np.uint32(24)
        word = np.uint32(word * np.uint32(0xCC9E2D51))
        word = np.uint32(word << np.uint32(15)) | np.uint32(word >> np.uint32(17))
        state ^= np.uint32(word * np.uint32(0x1B873593))
        state = np.uint32(state << np.uint32(13)) | np.uint32(state >> np.uint32(19))
        state = np.uint32(state * np.uint32(5) + np.uint32(0xE6546B64))
    word = np.uint32(0)
    for tail in range(size % 4 - 1, -1, -1):
        word = np.uint32(word << np.uint32(8)) | np.uint32(data[start + 4 * blocks + tail])
    if size % 4:
        word = np.uint32(word * np.uint32(0xCC9E2D51))
        word = np.uint32(word << np.uint32(15)) | np.uint32(word >> np.uint32(17))
        state ^= np.uint32(word * np.uint32(0x1B873593))
    state ^= np.uint32(size)
    state = np.uint32((state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B))
    state = np.uint32((state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35))
    return np.int32(state ^ state >> np.uint32(16))


@numba.njit(cache=True)
def _column(data, start, size, num_columns):
    return abs(np.int64(_murmur3(data, start, size))) % num_columns


@numba.njit(cache=True)
def _hash_texts(data, ends, classes, num_columns):
    columns = np.empty(data.size + ends.size + 1, dtype=np.int32)  # W words and W - 1 pairs take 2 W - 1 bytes or more
    row_ends = np.empty(ends.size, dtype=np.int64)
    num_words = np.zeros(ends.size, dtype=np.int64)
    num_distinct = np.zeros(ends.size, dtype=np.int64)
    marks = np.full(num_columns, -1, dtype=np.int64)  # the last row that has the column
    pair = np.empty(256, dtype=np.uint8)
    used, start = 0, 0
    for row in range(ends.size):
        first_of_row, end = used, ends[row]
        hashes = np.empty((end - start + 1) // 2 + 1, dtype=np.uint64)
        before_start, before_end = -1, -1
        place = start
        while place < end:
            code_point, behind = _code_point(data, place)
            if not classes[code_point] & _WORD:
                place = behind
                continue
            word_start = place
            hashed = np.uint64(0xCBF29CE484222325)  # FNV-1a, 64 bits: tells a text's words apart
            while place < end:
                code_point, behind = _code_point(data, place)
                if not classes[code_point] & _WORD:
                    break
                hashed = (hashed ^ np.uint64(code_point)) * np.uint64(0x100000001B3)
                place = behind
            hashes[num_words[row]] = hashed
            num_words[row] += 1
            column = _column(data, word_start, place - word_start, num_columns)
            if marks[column] != row:
                marks[column] = row
                columns[used] = column
                used += 1
            if before_start >= 0:
                left = before_end - before_start
                size = left + 1 + place - word_start
                if size > pair.size:
                    pair = np.empty(2 * size, dtype=np.uint8)
                pair[:left] = data[before_start:before_end]
                pair[left] = 32
                pair[left + 1 : size] = data[word_start:place]
                column = _column(pair, 0, size, num_columns)
                if marks[column] != row:
                    marks[column] = row
                    columns[used] = column
                    used += 1
            before_start, before_end = word_start, place
        columns[first_of_row:used].sort()
        row_ends[row] = used
        words = np.sort(hashes[: num_words[row]])
        for index in range(words.size):
            num_distinct[row] += index == 0 or words[index] != words[index - 1]
        start = end
    return columns[:used].copy(), row_ends, num_words, num_distinct


def _joined(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the texts' UTF-8 one after the other, uint8[B], and where each ends, int64[n]."""
    encoded = [text.encode() for text in texts]
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return data, np.cumsum([len(each) for each in encoded], dtype=np.int64)


def character_counts(texts: list[str]) -> np.ndarray:
    """Returns int64[n, 4]: characters, letters (of words, neither digits nor underscores), decimal digits, line breaks."""
    counts = np.zeros((len(texts), 4), dtype=np.int64)
    _count(*_joined(texts), _classes(), counts)
    return counts


def hashed_words(texts: list[str], bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns which columns each text's words and pairs of neighbours have.

    Args:
        texts: n texts; they are lowered here.
        bits: there are 2**bits columns.

    Returns:
        Columns of all texts, int32, those of a text rising and distinct; where each text's end, int64[n]; words of each
        text, int64[n]; and distinct words, int64[n].
    """
    return _hash_texts(*_joined([text.lower() for text in texts]), _classes(), 2**bits)
