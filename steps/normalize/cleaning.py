"""What is done to a text before its id is taken. Each rule is a function of the text alone."""

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

CONTROL_CHARACTERS = "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufdd0-\ufdef\ufffe\uffff]"
"""What Unicode calls controls, but for those that are white space, and noncharacters: NULs of padded records, bells and
escapes of terminals, C1 codes of text decoded twice."""


class Cleaned(NamedTuple):
    """A text, and what was done to it."""

    text: str
    recomposed: bool = False
    controls_removed: bool = False
    whitespace_capped: bool = False
    repeats_capped: bool = False


def cleaner(
    compose: bool, control_characters: str, whitespace_run: int, repeated_run: int | None
) -> Callable[[str], Cleaned]:
    """Returns the function that cleans texts; see `NormalizeConfig` for what the arguments mean."""
    long_whitespace = re.compile(rf"\s{{{whitespace_run + 1},}}")
    controls = re.compile(CONTROL_CHARACTERS) if control_characters == "drop" else None
    long_repeats = re.compile(rf"(\S)\1{{{repeated_run},}}") if repeated_run is not None else None

    def clean(text: str) -> Cleaned:
        done = Cleaned(text)
        # First of all: what a control character had kept apart may compose.
        if controls is not None and controls.search(text):
            text = controls.sub("", text)
            done = done._replace(controls_removed=True)
        if compose and not unicodedata.is_normalized("NFC", text):
            text = unicodedata.normalize("NFC", text)
            done = done._replace(recomposed=True)
        if long_whitespace.search(text):
            text = long_whitespace.sub(lambda run: run.group()[:whitespace_run], text)
            done = done._replace(whitespace_capped=True)
        if long_repeats is not None and long_repeats.search(text):
            text = long_repeats.sub(lambda run: run.group()[:repeated_run], text)
            done = done._replace(repeats_capped=True)
        return done._replace(text=text)

    return clean
