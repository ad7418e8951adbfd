"""The terms of a text in any script: what topics are named by.

Where words are separated, a term is a word of three letters or more (two in Hangul, whose letters are syllables); marks
belong to it, without which Hindi or decomposed accents would come in pieces. Where they are not, nobody says where a
word ends: terms are the n-grams of a run of Han (2 to 4 characters) or of Thai, Lao, Khmer or Burmese (3 to 6), and
whole runs of Katakana. Hiragana, which is mostly grammar, gives none. `without_parts` then leaves of such n-grams the
longest that are as frequent as what they hold.
"""

import functools
import re
import unicodedata
from collections.abc import Sequence

from steps.unspaced_scripts import UNSPACED_RANGES

_READ_CHARACTERS = 4_000
_KATAKANA = "\u30a1-\u30fa\u30fc"
_HAN = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SOUTH_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_HANGUL = "\uac00-\ud7a3"
_ASCII_WORD = re.compile("[a-z]{3,}")
_WHOLE = re.compile(f"[{_HANGUL}]{{2,}}|[{_KATAKANA}]{{2,}}")
_RUNS = ((re.compile(f"[{_HAN}]{{2,}}"), 2, 4), (re.compile(f"[{_SOUTH_ASIAN}]{{3,}}"), 3, 6))
"""What runs give n-grams, of which length at least and at most."""
_N_GRAM = re.compile(f"[{_HAN}{_SOUTH_ASIAN}]+")
_AS_FREQUENT = 0.7
"""Share of an n-gram's documents that a longer one around it must have to stand for it."""


@functools.cache
def _word() -> re.Pattern[str]:
    categories = ((each, unicodedata.category(chr(each))) for each in range(0x10000))
    return re.compile(f"[{_ranges([each for each, name in categories if name[0] in 'LM' and not _alone(each)])}]{{3,}}")


def _alone(code_point: int) -> bool:
    unspaced = any(first <= code_point <= last for first, last in UNSPACED_RANGES)
    return unspaced or 0xAC00 <= code_point <= 0xD7A3


def _ranges(code_points: list[int]) -> str:
    """Returns rising code points as the inside of a character class."""
    firsts = [each for each, before in zip(code_points, [-2, *code_points], strict=False) if each != before + 1]
    lasts = [each for each, after in zip(code_points, [*code_points[1:], -2], strict=True) if each + 1 != after]
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in zip(firsts, lasts, strict=True))


def terms_of(text: str) -> set[str]:
    """Returns the distinct terms, in lower case, of a text's first 4,000 characters."""
    text = text[:_READ_CHARACTERS].lower()
    if text.isascii():
        return set(_ASCII_WORD.findall(text))
    found = {*_word().findall(text), *_WHOLE.findall(text)}
    for pattern, shortest, longest in _RUNS:
        for run in pattern.findall(text):
            for length in range(shortest, min(longest, len(run)) + 1):
                found.update(run[start : start + length] for start in range(len(run) - length + 1))
    return found


def without_parts(ranked: Sequence[str], shares: dict[str, float], count: int) -> list[str]:
    """Returns the first `count` terms of a ranking without n-grams that only are parts of, or around, a better one.

    Args:
        ranked: terms, best first.
        shares: in which share of a topic's documents each occurs.
        count: terms to return, at most.
    """
    chosen: list[str] = []
    window = ranked[: 20 * count]
    for term in window:
        if len(chosen) == count:
            break
        if _N_GRAM.fullmatch(term):
            around = [each for each in window if term in each and shares[each] >= _AS_FREQUENT * shares[term]]
            term = max(around, key=len)
            if any(term in each or each in term for each in chosen):
                continue
        chosen.append(term)
    return chosen
