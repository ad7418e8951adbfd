"""How words are spelled before they are compared, and the tables by which a kernel spells them so.

`fold` says what is meant: zero-width characters out, NFKC (so that composed, decomposed and full-width spellings agree),
case folding. `tables` says the same a code point at a time, for all texts but those in which NFKC looks at more than
one: a mark that may compose with the letter before it, or marks out of order. A kernel gives such a text back, to be
folded whole. This is Unicode's quick check (annex 15): a text all of whose characters are alone what NFKC makes of them,
none of which may join the one before, and whose combining classes do not fall, is what NFKC makes of it.
"""

import functools
import re
import unicodedata
from typing import NamedTuple

import numpy as np

from steps.unspaced_scripts import UNSPACED_RANGES

SEPARATOR, WORD, SINGLE = 0, 1, 2
"""A code point separates, belongs to a word, or is a word by itself."""
SPECIAL = 1 << 31
"""Entries of `Tables.folded` from here on are no code points."""
INVISIBLE, WHOLE_TEXT = SPECIAL | 1 << 30, SPECIAL | 1 << 30 | 1
"""The code point is left out; the text has to be folded as a whole."""
NOT_ASCII = 0xFF

_INVISIBLE_RANGES = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x180B, 0x180F),  # Mongolian variation selectors
    (0x200B, 0x200F),  # zero-width space, joiners, direction marks
    (0x202A, 0x202E),  # embeddings of direction
    (0x2060, 0x206F),  # word joiner, isolates of direction
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xE0100, 0xE01EF),  # more variation selectors
)
_INVISIBLE = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _INVISIBLE_RANGES) + "]")
_LAST_LISTED = 0x20000
"""Every code point below is looked up; the two planes from here on hold ideographs, the rest holds no words."""
_IDEOGRAPHS = range(0x20000, 0x40000)
_COMPATIBILITY_IDEOGRAPHS = range(0x2F800, 0x2FA20)
_JOINING_JAMO = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
"""Vowels and finals, which join the Hangul letter before them by rule and not by a table."""


class Tables(NamedTuple):
    """What becomes of each code point; arrays are over all 0x110000 of them unless they say otherwise."""

    folded: np.ndarray
    """uint32: what it folds to; or INVISIBLE, WHOLE_TEXT, or SPECIAL + the place of several in `expansions`."""
    expansions: np.ndarray
    """uint32: a number n, then n code points, and so on."""
    classes: np.ndarray
    """uint8: SEPARATOR, WORD or SINGLE, of folded code points."""
    combining: np.ndarray
    """uint8: canonical combining class."""
    of_bytes: np.ndarray
    """uint8[256]: of ASCII, what a letter or digit folds to, and 0 for what separates; NOT_ASCII for other bytes."""


def fold(text: str) -> str:
    """Returns the text without differences of case, width, composition and zero-width characters."""
    if text.isascii():
        return text.lower()
    # Invisible characters go first: one between a letter and its accent would keep NFKC from composing them.
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()


def split_words(text: str) -> list[str]:
    """Returns the words of the folded text, as the kernels of `words.py` see them: for people to read."""
    folded = fold(text)
    kinds = tables().classes[np.frombuffer(folded.encode("utf-32-le"), dtype=np.uint32)]
    goes_on = np.zeros(kinds.size, dtype=bool)
    goes_on[1:] = (kinds[1:] == WORD) & (kinds[:-1] == WORD)
    starts = np.flatnonzero((kinds != SEPARATOR) & ~goes_on)
    ends = np.flatnonzero((kinds != SEPARATOR) & ~np.append(goes_on[1:], False)) + 1
    return [folded[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


@functools.cache
def tables() -> Tables:
    """Returns the tables of this Python's version of Unicode; 0.3 s the first time."""
    folded = np.arange(0x110000, dtype=np.uint32)
    classes = np.zeros(0x110000, dtype=np.uint8)
    combining = np.zeros(0x110000, dtype=np.uint8)
    joining = _joining()
    expansions: list[int] = []
    for code_point in (*range(_LAST_LISTED), *_COMPATIBILITY_IDEOGRAPHS):
        character = chr(code_point)
        if unicodedata.category(character)[0] in "LMN":
            classes[code_point] = WORD
        combining[code_point] = unicodedata.combining(character)
        normal = unicodedata.normalize("NFKC", character)
        spelled = normal.casefold()
        if not joining.isdisjoint(normal) or (normal != character and any(map(unicodedata.combining, normal))):
            folded[code_point] = WHOLE_TEXT
        elif len(spelled) == 1:
            folded[code_point] = ord(spelled)
        else:
            folded[code_point] = SPECIAL + len(expansions)
            expansions += [len(spelled), *map(ord, spelled)]
    folded[0xD800:0xE000] = WHOLE_TEXT  # halves of surrogate pairs are no UTF-8, which decoding the text will say
    for first, last in _INVISIBLE_RANGES:
        folded[first : last + 1] = INVISIBLE
    classes[_IDEOGRAPHS.start : _IDEOGRAPHS.stop] = SINGLE
    for first, last in UNSPACED_RANGES:
        block = classes[first : last + 1]
        block[block == WORD] = SINGLE
    of_bytes = np.full(256, NOT_ASCII, dtype=np.uint8)
    of_bytes[:128] = np.where(classes[:128] == WORD, folded[:128], 0)
    return Tables(folded, np.array(expansions, dtype=np.uint32), classes, combining, of_bytes)


def _joining() -> set[str]:
    """Returns the characters that may compose with one before them."""
    found = set(map(chr, _JOINING_JAMO))
    for code_point in range(_LAST_LISTED):
        parts = unicodedata.decomposition(chr(code_point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return found
