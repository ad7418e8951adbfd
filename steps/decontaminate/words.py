"""Text to word hashes: what n-grams for decontamination are made of.

A word is a run of letters, marks, digits and "_"; case, width and composition are folded, punctuation separates. So a
passage is the same whether it is quoted, commented out, wrapped at another width or set in bold. Scripts that are
written without spaces (Han, Kana, Thai, Lao, Khmer, Burmese), and Hangul, whose words are too few to fill an n-gram,
give one word per code point. A paragraph ends at a blank line (also a commented or quoted one: "#", ">"), not at a
line end: wrapping must not change what is found.

The splitter of deduplication (steps/dedup/words.py) differs in four things, since it asks how alike two texts are and not
whether one holds a passage. Its Hangul words are words: they are separated by spaces, and only an n-gram of 13 wants more
of them. It drops invisible characters before composing, by a list; here all format characters go, after it. "_" separates
there and joins here, where an identifier is one word. Digits of unspaced scripts stand alone there and join here. The
signatures and matches in stores were made by these rules, so they stay apart.

Hashes are 64-bit and the same on every machine. One kernel goes through the UTF-8 bytes of a batch, as they lie in an Arrow
column, and folds by a table (steps/decontaminate/folding.py); it is compiled by numba on first use (cached beside this
file).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from steps.decontaminate.folding import (
    CLASS_SHIFT,
    DROPPED,
    EXPANDS,
    FOLDED_MASK,
    LETTER,
    NEWLINE,
    OTHER,
    SINGLE,
    SPACE,
    fold,
    folding_table,
    needs_composing,
    without_dropped,
)
from steps.splitmix import FIRST_MULTIPLIER, GOLDEN_GAMMA, SECOND_MULTIPLIER


@dataclass(frozen=True)
class Words:
    """The words of a batch of texts, in order; W words."""

    hashes: np.ndarray
    """uint64[W]: equal words have equal hashes."""
    has_letter: np.ndarray
    """bool[W]."""
    texts: np.ndarray
    """int64[W]: which text of the batch the word is in."""
    paragraphs: np.ndarray
    """int64[W]: number of the word's paragraph, rising through the batch; a new text starts a new one."""
    starts: np.ndarray
    """int64[W]: place of its first byte in `data`."""
    ends: np.ndarray
    """int64[W]: place after its last byte."""
    data: np.ndarray
    """uint8: the texts in UTF-8; those that the table cannot fold are folded here already."""

    def excerpt(self, first: int, last: int) -> str:
        """Returns the folded text from word `first` to word `last`, both included; a character that folds to several words,
        as Thai sara am, is whole in each."""
        found = self.data[self.starts[first] : self.ends[last]].tobytes().decode("utf-8", "surrogatepass")
        return without_dropped(fold(found))


def encoded(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns texts as one run of UTF-8 bytes, uint8, and int64[T + 1], where each begins and the last one ends."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(parts), dtype=np.uint8), np.cumsum([0, *map(len, parts)])


def split_words(texts: Sequence[str]) -> Words:
    """Returns the words of a batch of texts, empty ones too."""
    return split_utf8(*encoded(texts))


def split_utf8(data: np.ndarray, offsets: np.ndarray) -> Words:
    """Returns the words of a batch of texts.

    Args:
        data: uint8: the bytes of the texts, one after another, maybe with others before and after.
        offsets: int64[T + 1], as in an Arrow string column: text t is `data[offsets[t] : offsets[t + 1]]`. Working memory is
            about 10 bytes a byte of the batch.
    """
    composing = needs_composing(data, offsets)
    chosen = np.flatnonzero(composing)
    if len(chosen):
        data, offsets = _with_folded(data, offsets, chosen)
    capacity = int(offsets[-1] - offsets[0])
    hashes = np.empty(capacity, dtype=np.uint64)
    has_letter = np.empty(capacity, dtype=np.bool_)
    places = np.empty((4, capacity), dtype=np.int64)
    table, expansions, _ = folding_table()
    count = _split(data, offsets, composing, table, expansions, hashes, has_letter, places)
    texts, paragraphs, starts, ends = places[:, :count]
    return Words(hashes[:count], has_letter[:count], texts, paragraphs, starts, ends, data)


def _with_folded(data: np.ndarray, offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns data and offsets with some texts replaced by their folded forms."""
    replaced = set(chosen.tolist())
    parts = []
    for number in range(len(offsets) - 1):
        part = data[offsets[number] : offsets[number + 1]].tobytes()
        if number in replaced:
            part = fold(part.decode("utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")
        parts.append(part)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), np.cumsum([0, *map(len, parts)])


@numba.njit(cache=True, inline="always")
def _mix(value):
    """`steps.splitmix.finalise` of one value, for the kernel below."""
    value = (value ^ (value >> np.uint64(30))) * FIRST_MULTIPLIER
    value = (value ^ (value >> np.uint64(27))) * SECOND_MULTIPLIER
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True, inline="always")
def _code_point_at(data, place):
    """Returns the code point that begins at a place of valid UTF-8 (or UTF-8 with surrogates), and where the next one does."""
    lead = np.uint32(data[place])
    if lead < 0x80:
        return lead, place + 1
    second = np.uint32(data[place + 1]) & np.uint32(0x3F)
    if lead < 0xE0:
        return (lead & np.uint32(0x1F)) << np.uint32(6) | second, place + 2
    third = np.uint32(data[place + 2]) & np.uint32(0x3F)
    if lead < 0xF0:
        return (lead & np.uint32(0x0F)) << np.uint32(12) | second << np.uint32(6) | third, place + 3
    fourth = np.uint32(data[place + 3]) & np.uint32(0x3F)
    high = (lead & np.uint32(0x07)) << np.uint32(18) | second << np.uint32(12)
    return high | third << np.uint32(6) | fourth, place + 4


@numba.njit(cache=True, inline="always")
def _put(word, hashes, has_letter, places, number):
    """Writes word `number` (hash, whether it has a letter, text, paragraph, start, end); returns the next number."""
    hashes[number], has_letter[number] = word[0], word[1]
    places[0, number], places[1, number], places[2, number], places[3, number] = word[2], word[3], word[4], word[5]
    return number + 1


@numba.njit(cache=True, nogil=True)
def _split(data, offsets, folded_already, table, expansions, hashes, has_letter, places):
    """Writes the words of all texts and returns how many there are.

    A word's hash is a polynomial over its scattered code points, modulo 2^64; `places` gets text, paragraph, start, end.
    """
    num_words = 0
    paragraph = -1
    listed = np.uint32(table.size)
    for text in range(offsets.size - 1):
        paragraph += 1
        blank = False  # whether there was nothing but white space and comment marks since the last newline
        state, power, length, letters = np.uint64(0), GOLDEN_GAMMA, 0, False
        begin, after = 0, 0
        place, end = offsets[text], offsets[text + 1]
        here, expansion, pending = place, 0, 0
        while place < end or pending:
            if not pending:
                here = place
            if pending:
                code = expansions[expansion]
                expansion += 1
                pending -= 1
            else:
                code, place = _code_point_at(data, place)
            kind = np.uint32(OTHER)
            if code < listed:
                entry = table[code]
                if entry & EXPANDS and not folded_already[text]:
                    expansion = entry & FOLDED_MASK
                    pending = expansions[expansion]
                    expansion += 1
                    continue
                if not folded_already[text]:
                    code = entry & FOLDED_MASK
                    entry = table[code]
                kind = entry >> CLASS_SHIFT & np.uint32(7)
            if kind == DROPPED:
                continue
            in_word = OTHER < kind < SINGLE
            if length and not in_word:
                word = _mix(state + np.uint64(length)), letters, text, paragraph, begin, after
                num_words = _put(word, hashes, has_letter, places, num_words)
                state, power, length, letters = np.uint64(0), GOLDEN_GAMMA, 0, False
            if in_word:
                if not length:
                    begin = here
                state += _mix(np.uint64(code) + GOLDEN_GAMMA) * power
                power *= GOLDEN_GAMMA
                length += 1
                letters |= kind == LETTER
                after = place
                blank = False
            elif kind == SINGLE:
                word_hash = _mix(_mix(np.uint64(code) + GOLDEN_GAMMA) * GOLDEN_GAMMA + np.uint64(1))
                num_words = _put((word_hash, True, text, paragraph, here, place), hashes, has_letter, places, num_words)
                blank = False
            elif kind == NEWLINE:
                paragraph += blank
                blank = True
            elif kind != SPACE:
                blank = False
        if length:
            word = _mix(state + np.uint64(length)), letters, text, paragraph, begin, after
            num_words = _put(word, hashes, has_letter, places, num_words)
    return num_words
