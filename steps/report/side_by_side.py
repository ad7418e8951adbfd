"""Two texts side by side, with the words marked that differ.

Words are compared as they stand, so a change of case is a difference. Scripts without spaces are compared by character.
"""

import re
from difflib import SequenceMatcher

from steps.unspaced_scripts import UNSPACED_RANGES

Segments = list[tuple[str, bool]]
"""(text, whether it differs from the other side), which together are one side's text."""

_UNSPACED = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED_RANGES)
_TOKEN = re.compile(rf"\s+|[{_UNSPACED}]|\w+?(?=[{_UNSPACED}])|(?:(?![{_UNSPACED}])\w)+|[^\w\s]")
MOST_TOKENS = 4_000
"""Longer texts are compared up to here: the comparison takes time by the square."""


def differing(one: str, other: str) -> tuple[Segments, Segments]:
    """Returns the segments of both texts.

    Args:
        one: at most `MOST_TOKENS` words and signs of it are compared; what is beyond stands unmarked.
        other: likewise.
    """
    tokens = _TOKEN.findall(one), _TOKEN.findall(other)
    rest = ["".join(each[MOST_TOKENS:]) for each in tokens]
    left, right = (each[:MOST_TOKENS] for each in tokens)
    # White space is compared as white space, whatever its length: a text that is wrapped anew is not another text.
    keys = ([" " if token.isspace() else token for token in side] for side in (left, right))
    sides: tuple[Segments, Segments] = ([], [])
    for operation, i1, i2, j1, j2 in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        for side, part in zip(sides, (left[i1:i2], right[j1:j2]), strict=True):
            if part:
                _append(side, "".join(part), operation != "equal" and not all(map(str.isspace, part)))
    for side, tail in zip(sides, rest, strict=True):
        if tail:
            _append(side, tail, False)
    return sides


def marked(text: str, marks: list[list[int]]) -> Segments:
    """Returns the segments of a text whose characters [first, after) are marked, ascending."""
    segments: Segments = []
    done = 0
    for first, after in marks:
        if first > done:
            segments.append((text[done:first], False))
        segments.append((text[first:after], True))
        done = after
    if done < len(text):
        segments.append((text[done:], False))
    return segments


def cut(segments: Segments, characters: int) -> Segments:
    """Returns the segments up to so many characters."""
    kept: Segments = []
    for text, differs in segments:
        if characters <= 0:
            break
        kept.append((text[:characters], differs))
        characters -= len(text)
    return kept


def _append(side: Segments, text: str, differs: bool) -> None:
    if side and side[-1][1] == differs:
        side[-1] = (side[-1][0] + text, differs)
    else:
        side.append((text, differs))
