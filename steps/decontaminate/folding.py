"""Folding: what spellings of a character count as the same, and what each code point is to the word splitter.

`fold` is the definition: NFKC, case folding, NFKC. For most texts it can be done one code point at a time, by the table here;
`needs_composing` finds those for which it cannot: a code point that may join the one before it, one that folds to such, or marks
that stand in another order than the canonical one.
"""

import functools
import unicodedata

import numba
import numpy as np

from steps.unspaced_scripts import UNSPACED_RANGES

OTHER, WORD, LETTER, SINGLE, SPACE, NEWLINE, DROPPED = range(7)
FOLDED_MASK = np.uint32(0x3FFFF)
"""Of a table entry: the folded code point, or, if it expands, where its expansion begins."""
CLASS_SHIFT = np.uint32(18)
"""Three bits from here: the class of the code point, as it stands."""
EXPANDS = np.uint32(1 << 21)
"""Whether it folds to several code points, none of which may join its neighbours ("ß", "…", Thai sara am)."""
_ORDER_MASK = np.uint16(0xFF)  # of a check: the canonical combining class, by which marks are put in order
_ALWAYS = np.uint16(1 << 8)
_JOINS = np.uint16(1 << 9)
_BASE = np.uint16(1 << 10)  # folds to what some code point joins

_LISTED = 0x40000  # above: private use, tags and unassigned, none of them letters, and none of them folded
_SINGLE_RANGES = (
    *UNSPACED_RANGES,
    (0x3130, 0x318F),  # Hangul letters
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0x20000, 0x3FFFF),  # Han, later extensions
)


def fold(text: str) -> str:
    """Returns the text with case, width and composition folded away."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def without_dropped(text: str) -> str:
    """Returns the text without format characters, which the word splitter leaves out."""
    if text.isascii():
        return text
    kinds = folding_table()[0] >> CLASS_SHIFT & np.uint32(7)
    return "".join(each for each in text if ord(each) >= _LISTED or kinds[ord(each)] != DROPPED)


def needs_composing(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns bool[T]: whether a text has to be folded as a whole.

    Args:
        data: uint8: UTF-8.
        offsets: int64[T + 1], where the texts begin and the last one ends.
    """
    return _needs_composing(data, offsets, folding_table()[2])


@numba.njit(cache=True, nogil=True)
def _needs_composing(data, offsets, checks):
    found = np.zeros(offsets.size - 1, dtype=np.bool_)
    for text in range(offsets.size - 1):
        place, end = offsets[text], offsets[text + 1]
        before = np.uint16(0)
        while place < end:
            lead = np.uint32(data[place])
            if lead < 0x80:
                before = checks[lead]
                place += 1
                continue
            if lead < 0xE0:
                code = (lead & np.uint32(0x1F)) << np.uint32(6) | np.uint32(data[place + 1]) & np.uint32(0x3F)
                place += 2
            elif lead < 0xF0:
                code = (
                    (lead & np.uint32(0x0F)) << np.uint32(12)
                    | (np.uint32(data[place + 1]) & np.uint32(0x3F)) << np.uint32(6)
                    | np.uint32(data[place + 2]) & np.uint32(0x3F)
                )
                place += 3
            else:
                code = (
                    (lead & np.uint32(0x07)) << np.uint32(18)
                    | (np.uint32(data[place + 1]) & np.uint32(0x3F)) << np.uint32(12)
                    | (np.uint32(data[place + 2]) & np.uint32(0x3F)) << np.uint32(6)
                    | np.uint32(data[place + 3]) & np.uint32(0x3F)
                )
                place += 4
            if code >= checks.size:
                # Variation selectors and the like: nothing here composes, but their order is not known.
                found[text] = True
                break
            check = checks[code]
            order, order_before = check & _ORDER_MASK, before & _ORDER_MASK
            joins = check & _JOINS and (before & _BASE or order_before)
            if check & _ALWAYS or joins or (order != 0 and order_before > order):
                found[text] = True
                break
            before = check
    return found


@functools.cache
def folding_table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what kernels know of code points.

    Returns:
        uint32[0x40000]: an entry for each: folded code point or place of its expansion, class, whether it expands.
        uint32: expansions one after another, each the number of code points and then these.
        uint16[0x40000]: a check for each: combining class, whether it needs the whole text, joins, or is joined.
    """
    characters = [chr(code) for code in range(_LISTED)]
    bases, joining = _composing()

    # Newlines fold to themselves and join nothing, so all code points can be folded at once.
    lines = "\n".join("" if character == "\n" else character for character in characters)
    composed = unicodedata.normalize("NFKC", lines)
    stages = (lines, composed, composed.casefold(), fold(lines))
    entries, checks, expansions = list(range(_LISTED)), [0] * _LISTED, []
    for code, forms in enumerate(zip(*(stage.split("\n") for stage in stages), strict=True)):
        plain, folded = forms[0], forms[-1]
        order = unicodedata.combining(characters[code])
        checks[code] = order | (int(_JOINS) if characters[code] in joining else 0)
        if code == ord("\n"):
            continue
        if not bases.isdisjoint(form[-1] for form in forms):
            checks[code] |= int(_BASE)
        if order == 0 and forms == (plain, plain, plain, plain):
            continue
        if all(len(form) == 1 and (form in joining) == (plain in joining) for form in forms):
            entries[code] = ord(folded)
            if any(unicodedata.combining(form) != order for form in forms):
                checks[code] |= int(_ALWAYS)
        elif all(each not in joining and not unicodedata.combining(each) for form in forms for each in form):
            entries[code] = len(expansions) | int(EXPANDS)
            expansions += [len(folded), *map(ord, folded)]
        else:
            checks[code] |= int(_ALWAYS)
    table = np.array(entries, dtype=np.uint32) | _classes().astype(np.uint32) << CLASS_SHIFT
    return table, np.array(expansions, dtype=np.uint32), np.array(checks, dtype=np.uint16)


def _composing() -> tuple[set[str], set[str]]:
    """Returns the characters that are joined by another, and those that join."""
    bases = {chr(code) for code in (*range(0x1100, 0x1113), *range(0xAC00, 0xD7A4, 28))}  # Hangul, by rule
    joining = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    for code in range(0x30000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", first + second) == chr(code):
                bases.add(first)
                joining.add(second)
    return bases, joining


def _classes() -> np.ndarray:
    """uint8[_LISTED]: what each code point is to the word splitter."""
    by_category = {"L": LETTER, "M": WORD, "N": WORD, "Z": SPACE}
    classes = np.zeros(_LISTED, dtype=np.uint8)
    for code in range(_LISTED):
        category = unicodedata.category(chr(code))
        classes[code] = DROPPED if category == "Cf" else by_category.get(category[0], OTHER)
    for first, last in _SINGLE_RANGES:
        block = classes[first : last + 1]
        marks = [unicodedata.category(chr(code))[0] in "LM" for code in range(first, last + 1)]
        block[np.array(marks)] = SINGLE
    classes[0xFE00:0xFE10] = DROPPED  # variation selectors
    for code in b"\t\r\v\f" + b"#/*>;%|":  # a line of only comment or quotation marks is a blank line, commented out
        classes[code] = SPACE
    classes[0x85] = SPACE
    classes[ord("_")] = WORD
    classes[ord("\n")] = NEWLINE
    return classes
