"""Fortune files: entries between lines that hold only "%", without what terminals make of them (overstrikes, colours)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import decoded
from steps.sources.formats.file import Piece, SourceFile

_SEPARATOR = re.compile(r"^%[ \t]*\n", re.MULTILINE)
_OVERSTRIKE = re.compile(r".\x08")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Fortunes:
    """How fortune files are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields the entries, placed by number from 1."""
        text = decoded(file.content())
        if "\x08" in text or "\x1b" in text:
            text = _ESCAPE.sub("", _OVERSTRIKE.sub("", text))
        for number, entry in enumerate(_SEPARATOR.split(text + "\n"), start=1):
            if entry.strip():
                yield Piece(entry.strip("\n") + "\n", str(number))
