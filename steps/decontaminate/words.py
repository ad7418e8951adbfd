"""Text to word hashes, vectorised: what n-grams for decontamination are made of.

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

Hashes are 64-bit and the same on every machine. All texts of a batch are worked on at once with NumPy: about 11 MB a
second on one core, and no compilation.
"""

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steps.splitmix import GOLDEN_GAMMA, finalise
from steps.unspaced_scripts import UNSPACED_RANGES

_OTHER, _WORD, _LETTER, _SINGLE, _SPACE, _NEWLINE, _DROPPED = range(7)
_LISTED = 0x40000  # above: private use, tags and unassigned, none of them letters
_SINGLE_RANGES = (
    *UNSPACED_RANGES,
    (0x3130, 0x318F),  # Hangul letters
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0x20000, 0x3FFFF),  # Han, later extensions
)


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
    """int64[W]: place of its first character in `codes`."""
    ends: np.ndarray
    """int64[W]: place after its last character."""
    codes: np.ndarray
    """uint32: the folded characters of all texts."""

    def excerpt(self, first: int, last: int) -> str:
        """Returns the folded text from word `first` to word `last`, both included."""
        return self.codes[self.starts[first] : self.ends[last]].tobytes().decode("utf-32-le")


def fold(text: str) -> str:
    """Returns the text with case, width and composition folded away."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def split_words(texts: Sequence[str]) -> Words:
    """Returns the words of a batch of texts.

    Args:
        texts: any texts, empty ones too; working memory is about 100 bytes a character of the batch.
    """
    folded = [fold(text) for text in texts]
    codes = np.frombuffer("\n\n".join(folded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    edges = np.cumsum([len(text) + 2 for text in folded])  # each text with the "\n\n" after it
    classes = _classes()[np.minimum(codes, _LISTED - 1)]
    dropped = classes == _DROPPED
    if dropped.any():
        edges = edges - np.concatenate([[0], np.cumsum(dropped)])[np.minimum(edges, len(codes))]
        codes, classes = codes[~dropped], classes[~dropped]

    in_word = (classes >= _WORD) & (classes <= _SINGLE)
    single = classes == _SINGLE
    opens = in_word.copy()
    opens[1:] &= ~in_word[:-1] | single[1:] | single[:-1]
    starts = np.flatnonzero(opens)
    closes = in_word.copy()
    closes[:-1] &= ~in_word[1:] | opens[1:]
    ends = np.flatnonzero(closes) + 1

    letters = np.concatenate([[0], np.cumsum((classes == _LETTER) | single)])
    return Words(
        hashes=_hash_words(codes, in_word, starts, ends),
        has_letter=letters[ends] > letters[starts],
        texts=np.searchsorted(edges, starts, side="right"),
        paragraphs=np.cumsum(_paragraph_breaks(classes))[starts] if len(codes) else starts,
        starts=starts,
        ends=ends,
        codes=codes,
    )


def _hash_words(codes: np.ndarray, in_word: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Polynomial hash over the scattered code points of each word, modulo 2^64."""
    if not len(starts):
        return np.zeros(0, dtype=np.uint64)
    lengths = ends - starts
    firsts = np.cumsum(lengths) - lengths  # of each word, among the characters in words
    places = np.arange(int(lengths.sum())) - np.repeat(firsts, lengths)
    powers = np.cumprod(np.full(int(lengths.max()) + 1, GOLDEN_GAMMA, dtype=np.uint64))
    values = finalise(codes[in_word].astype(np.uint64) + GOLDEN_GAMMA) * powers[places]
    return finalise(np.add.reduceat(values, firsts) + lengths.astype(np.uint64))


def _paragraph_breaks(classes: np.ndarray) -> np.ndarray:
    """bool: newlines before which there was nothing but white space or comment marks since the newline before."""
    places = np.arange(len(classes))
    last_solid = np.maximum.accumulate(np.where(classes != _SPACE, places, -1))
    breaks = classes == _NEWLINE
    before = np.concatenate([[-1], last_solid[:-1]]) if len(classes) else last_solid
    return breaks & (before >= 0) & (classes[before] == _NEWLINE) if len(classes) else breaks


@functools.cache
def _classes() -> np.ndarray:
    """uint8[_LISTED]: what each code point is to the word splitter."""
    by_category = {"L": _LETTER, "M": _WORD, "N": _WORD, "Z": _SPACE}
    classes = np.zeros(_LISTED, dtype=np.uint8)
    for code in range(_LISTED):
        category = unicodedata.category(chr(code))
        classes[code] = _DROPPED if category == "Cf" else by_category.get(category[0], _OTHER)
    for first, last in _SINGLE_RANGES:
        block = classes[first : last + 1]
        marks = [unicodedata.category(chr(code))[0] in "LM" for code in range(first, last + 1)]
        block[np.array(marks)] = _SINGLE
    classes[0xFE00:0xFE10] = _DROPPED  # variation selectors
    for code in b"\t\r\v\f" + b"#/*>;%|":  # a line of only comment or quotation marks is a blank line, commented out
        classes[code] = _SPACE
    classes[0x85] = _SPACE
    classes[ord("_")] = _WORD
    classes[ord("\n")] = _NEWLINE
    return classes
