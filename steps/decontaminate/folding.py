"""Folding: what spellings of a character count as the same, and what each code point is to the word splitter.

`fold` is the definition: NFKC, case folding, NFKC. For most texts it can be done one code point at a time, by the table here;
`needs_composing` finds those for which it cannot: a code point that folds to several, one that may join the code point
before it, or marks that stand in another order than the canonical one.
"""

import functools
import unicodedata

import numba
import numpy as np

from steps.unspaced_scripts import UNSPACED_RANGES

OTHER, WORD, LETTER, SINGLE, SPACE, NEWLINE, DROPPED = range(7)
FOLDED_MASK = np.uint32(0x3FFFF)
"""Of a table entry: the folded code point."""
CLASS_SHIFT = np.uint32(18)
"""Three bits from here: the class of the code point, as it stands."""
_COMPOSES = np.uint32(1 << 21)
_ORDER_SHIFT = np.uint32(22)  # eight bits from here: the canonical combining class

_LISTED = 0x40000  # above: private use, tags and unassigned, none of them letters, and none of them folded
_SINGLE_RANGES = (
    *UNSPACED_RANGES,
    (0x3130, 0x318F),  # Hangul letters
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0x20000, 0x3FFFF),  # Han, later extensions
)
_HANGUL_JOINING = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))  # vowels and finals, composed by rule


def fold(text: str) -> str:
    """Returns the text with case, width and composition folded away."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def without_dropped(text: str) -> str:
    """Returns the text without format characters, which the word splitter leaves out."""
    if text.isascii():
        return text
    kinds = folding_table() >> CLASS_SHIFT & np.uint32(7)
    return "".join(each for each in text if ord(each) >= _LISTED or kinds[ord(each)] != DROPPED)


def needs_composing(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns bool[T]: whether a text has to be folded as a whole.

    Args:
        data: uint8: UTF-8.
        offsets: int64[T + 1], where the texts begin and the last one ends.
    """
    return _needs_composing(data, offsets, folding_table())


@numba.njit(cache=True, nogil=True)
def _needs_composing(data, offsets, table):
    found = np.zeros(offsets.size - 1, dtype=np.bool_)
    for text in range(offsets.size - 1):
        place, end = offsets[text], offsets[text + 1]
        order_before = np.uint32(0)
        while place < end:
            lead = np.uint32(data[place])
            if lead < 0x80:
                order_before = np.uint32(0)
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
            if code >= table.size:
                # Variation selectors and the like: nothing here composes, but their order is not known.
                found[text] = True
                break
            entry = table[code]
            order = entry >> _ORDER_SHIFT
            if entry & _COMPOSES or (order != 0 and order_before > order):
                found[text] = True
                break
            order_before = order
    return found


@functools.cache
def folding_table() -> np.ndarray:
    """Returns uint32[0x40000], an entry for each code point: folded code point, class, whether it composes, order."""
    characters = [chr(code) for code in range(_LISTED)]
    joining = set(map(chr, _HANGUL_JOINING))
    for parts in map(str.split, map(unicodedata.decomposition, characters)):
        if len(parts) == 2 and not parts[0].startswith("<"):
            joining.add(chr(int(parts[1], 16)))

    # Newlines fold to themselves and join nothing, so all code points can be folded at once.
    lines = "\n".join("" if character == "\n" else character for character in characters)
    composed = unicodedata.normalize("NFKC", lines)
    stages = (lines, composed, composed.casefold(), fold(lines))
    entries = list(range(_LISTED))
    for code, forms in enumerate(zip(*(stage.split("\n") for stage in stages), strict=True)):
        plain, order = forms[0], unicodedata.combining(characters[code])
        if order == 0 and plain not in joining and forms == (plain, plain, plain, plain):
            continue
        alone = all(len(form) == 1 and form not in joining and unicodedata.combining(form) == order for form in forms)
        entries[code] = (ord(forms[-1]) if alone else code | int(_COMPOSES)) | order << int(_ORDER_SHIFT)
    entries[ord("\n")] = ord("\n")
    return np.array(entries, dtype=np.uint32) | _classes().astype(np.uint32) << CLASS_SHIFT


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
