"""reStructuredText: the text as it is written, without targets, comments, options of directives and the marks of roles.

A light reading, not a parser: tables, literal blocks and underlined titles stay as they stand in the source.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import decoded
from steps.sources.formats.file import Piece, SourceFile

_DIRECTIVE = re.compile(r"(\s*)\.\. (?:\|[^|\n]+\| )?([\w:+.-]+)::(?: +(.*))?$")
_EXPLICIT = re.compile(r"(\s*)\.\.(?: |$)")
_OPTION = re.compile(r"\s+:[\w-]+:(?: |$)")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")
_ROLE = re.compile(r":[\w:+.-]+:`([^`\n]*)`")
_REFERENCE = re.compile(r"`([^`\n]+)`__?")
_TITLED = re.compile(r"\s*<[^<>]*>$")
_NO_CONTENT = frozenset(
    "toctree include literalinclude image index contents highlight module currentmodule meta raw kernel-doc kernel-figure".split()
)


@dataclass(frozen=True)
class Rst:
    """How .rst files are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the file's."""
        yield Piece(rst_text(decoded(file.content())))


def rst_text(source: str) -> str:
    """Returns the text of reStructuredText; content of directives stays, indented as it is."""
    kept: list[str] = []
    left_out_below: int | None = None  # lines indented deeper than this are left out
    options = False  # directly below a directive
    for line in source.expandtabs().split("\n"):
        indent = len(line) - len(line.lstrip())
        if left_out_below is not None:
            if not line.strip() or indent > left_out_below:
                continue
            left_out_below = None
        if options and _OPTION.match(line):
            continue
        options = False
        if directive := _DIRECTIVE.match(line):
            name, argument = directive[2], directive[3] or ""
            if name in _NO_CONTENT:
                left_out_below = indent
            elif argument and "code" not in name:
                kept.append(f"{directive[1]}{_inline(argument)}")
            options = True
        elif _EXPLICIT.match(line):
            left_out_below = indent
        elif not _UNDERLINE.match(line):
            kept.append(_inline(line.rstrip()))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n") + "\n"


def _inline(line: str) -> str:
    if "`" not in line:
        return line
    line = _ROLE.sub(lambda match: _TITLED.sub("", match[1]).lstrip("~!"), line)
    line = _REFERENCE.sub(lambda match: _TITLED.sub("", match[1]), line)
    return line.replace("``", "")
