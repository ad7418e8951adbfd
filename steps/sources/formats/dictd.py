"""Dictionaries in dictd's format: `NAME.dict.dz` (gzip), cut by the offsets in `NAME.index` beside it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import Unusable, decoded
from steps.sources.formats.file import Piece, SourceFile

_DIGITS = {
    digit: value for value, digit in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_REFERENCE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Dictd:
    """How dictionaries are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields the entries in order of the file, each once, whatever number of headwords points to it.

        Entries about the dictionary itself ("00-database-info" and the like) are left out. Braces round cross-references
        are dropped.
        """
        stem = file.name.rpartition("/")[2].split(".dict")[0]
        entries: dict[tuple[int, int], str] = {}
        for line in decoded(file.beside(f"{stem}.index")).splitlines():
            headword, offset, length = _index_line(line)
            if not headword.startswith(("00-database", "00database")):
                entries.setdefault((offset, length), headword)
        content = file.content()
        for (offset, length), headword in sorted(entries.items()):
            if offset + length > len(content):
                raise Unusable("damaged")
            text = _entry(content[offset : offset + length])
            yield Piece(_REFERENCE.sub(r"\1", text), str(offset), {"headword": headword})


def _entry(content: bytes) -> str:
    try:
        return decoded(content)
    except Unusable:
        # A few entries of old dictionaries were never converted; Windows-1252 lacks five bytes.
        return content.decode("cp1252", "replace").replace("\r\n", "\n")


def _index_line(line: str) -> tuple[str, int, int]:
    columns = line.split("\t")
    try:
        headword, offset, length = columns[:3]
        return headword, _number(offset), _number(length)
    except (ValueError, KeyError) as error:
        raise Unusable("damaged") from error


def _number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 64 + _DIGITS[digit]
    return value
