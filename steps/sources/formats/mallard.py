"""Mallard pages (GNOME help): titles, paragraphs, lists and tables; credits, comments and links of the page's head left out.

The parser calls back and no tree is built, so neither depth nor size of a page matters; entities of its own cannot grow
without bounds (expat refuses that), and none from outside are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import ParseError, XMLParser

from steps.sources.decoding import Unusable
from steps.sources.formats.file import Piece, SourceFile
from steps.sources.formats.layout import Layout

_LEFT_OUT = frozenset({"info", "comment", "include", "media", "links"})
_VERBATIM = frozenset({"code", "screen"})
_PARAGRAPHS = frozenset(
    "page section title subtitle p list steps terms tree table example note quote listing figure".split()
)
_LINES = frozenset({"item", "tr", "desc", "cite"})


@dataclass(frozen=True)
class Mallard:
    """How .page files are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the page's."""
        target = _Target()
        parser = XMLParser(target=target)
        try:
            parser.feed(file.content())
            parser.close()
        except (ParseError, ValueError, LookupError) as error:  # the latter two: an encoding that is unknown or wrong
            raise Unusable("unparsed") from error
        yield Piece(target.layout.text())


class _Target:
    def __init__(self) -> None:
        self.layout = Layout()
        self._left_out = 0
        self._open: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if self._left_out or name in _LEFT_OUT:
            self._left_out += 1
            return
        self._open.append(name)
        self._break(name, True)

    def end(self, tag: str) -> None:
        if self._left_out:
            self._left_out -= 1
            return
        self._break(self._open.pop(), False)

    def data(self, data: str) -> None:
        if not self._left_out:
            self.layout.add(data)

    def close(self) -> None:
        pass

    def _break(self, name: str, opening: bool) -> None:
        # <code> inside a paragraph is a word in it; on its own it is a listing.
        block = name in _VERBATIM and not (
            len(self._open) > opening and self._open[-1 - opening] in ("p", "title", "item")
        )
        if block:
            self.layout.verbatim(opening)
        elif name in _PARAGRAPHS:
            self.layout.break_paragraph()
        elif name in _LINES:
            self.layout.break_line()
        elif name in ("td", "th") and opening:
            self.layout.add(" ")
