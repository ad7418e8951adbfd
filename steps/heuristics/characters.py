"""What the heuristics' kernels know of characters: flags of each code point, and its small letter.

The flags are those of Python's own text methods (`str.isspace`, `isalnum`, `isalpha`, `splitlines`), so that scores say
what a plain Python definition says.
"""

import functools

import numpy as np

from steps.unspaced_scripts import UNSPACED_RANGES

(
    SPACE,
    ALNUM,
    ALPHA,
    DIGIT,
    LINE_BREAK,
    SINGLE,
    SENTENCE_END,
    SENTENCE_MARK,
    CLOSER,
    LINE_END,
    BULLET,
    QUOTE,
    BASE64,
    HEX,
) = (1 << bit for bit in range(14))
"""SINGLE: a letter or digit of a script without spaces, a word by itself. SENTENCE_END ends a sentence if white space
follows, SENTENCE_MARK always. CLOSER may stand between an end and the white space. QUOTE is stripped from stop words."""

BULLETS = "•‣▶◀◦■□▪▫–-*●"
SENTENCE_ENDS = ".!?"
SENTENCE_MARKS = "。！？।؟"
LINE_ENDS = SENTENCE_ENDS + SENTENCE_MARKS + "\"'”’»):;"
QUOTES = ".,;:!?\"'()“”„‘’«»‹›…،؛؟।"

_NUM_CODE_POINTS = 0x110000
_LAST_LISTED = 0x40000  # no letter, digit or white space lies above


@functools.cache
def character_flags() -> np.ndarray:
    """Returns uint16[0x110000], the flags of each code point."""
    table = np.zeros(_NUM_CODE_POINTS, dtype=np.uint16)
    for code_point in range(_LAST_LISTED):
        character = chr(code_point)
        if character.isalnum():
            table[code_point] = ALNUM | (ALPHA if character.isalpha() else 0) | (DIGIT if character.isdigit() else 0)
        elif character.isspace():
            table[code_point] = SPACE | (LINE_BREAK if len(f"a{character}a".splitlines()) == 2 else 0)
    for first, last in UNSPACED_RANGES:
        block = table[first : last + 1]
        block[(block & ALNUM) > 0] |= SINGLE
    block = table[0x20000:_LAST_LISTED]  # ideographs
    block[(block & ALNUM) > 0] |= SINGLE
    for characters, flag in (
        (SENTENCE_ENDS, SENTENCE_END),
        (SENTENCE_MARKS, SENTENCE_MARK),
        ("\"')]", CLOSER),
        (LINE_ENDS, LINE_END),
        (BULLETS, BULLET),
        (QUOTES, QUOTE),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", BASE64),
        ("0123456789abcdefABCDEF", HEX),
    ):
        for character in characters:
            table[ord(character)] |= flag
    return table


@functools.cache
def small_letters() -> np.ndarray:
    """Returns uint32[0x110000], the small letter of each code point, or itself. Both Greek sigmas are one."""
    table = np.arange(_NUM_CODE_POINTS, dtype=np.uint32)
    for code_point in range(0x20000):
        table[code_point] = ord(chr(code_point).lower()[0])  # the dotted capital I alone has two
    table[ord("ς")] = ord("σ")
    return table


def code_points(text: str) -> np.ndarray:
    """Returns uint32[len(text)]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
