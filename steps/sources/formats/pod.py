"""Perl's pod: headings, paragraphs, lists and verbatim blocks; formatting codes give their text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import decoded
from steps.sources.formats.file import Piece, SourceFile

_PARAGRAPHS = re.compile(r"\n[ \t]*\n+")
_WIDE_CODE = re.compile(r"([A-Z])(<{2,8})\s+(.{1,1000}?)\s+(>{2,8})", re.DOTALL)
_CODE = re.compile(r"([A-Z])<([^<>]*)>")
_DEEPEST = 20
_ESCAPES = {"lt": "<", "gt": ">", "verbar": "|", "sol": "/", "amp": "&", "quot": '"'}
# Brackets that are text while codes are resolved from the inside out.
_LEFT, _RIGHT = "\ue000", "\ue001"


@dataclass(frozen=True)
class Pod:
    """How .pod files are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the file's."""
        yield Piece(pod_text(decoded(file.content())))


def pod_text(source: str) -> str:
    """Returns the text of pod."""
    kept, inside, other_format = [], False, False
    for paragraph in _PARAGRAPHS.split(source):
        paragraph = paragraph.strip("\n")
        if not paragraph.startswith("="):
            if inside and not other_format:
                kept.append(paragraph.rstrip() if paragraph[:1].isspace() else _plain(" ".join(paragraph.split())))
            continue
        command, _, rest = paragraph[1:].partition(" ")
        command = command.split("\n")[0]
        inside = command != "cut"
        if command in ("begin", "end"):
            other_format = command == "begin"
        elif (command.startswith("head") or command == "item") and rest.strip() not in ("", "*"):
            kept.append(_plain(" ".join(rest.removeprefix("*").split())))
    return "\n\n".join(each for each in kept if each) + "\n"


def _plain(text: str) -> str:
    if "<" not in text:
        return text
    text = _WIDE_CODE.sub(_wide, text)
    for _ in range(_DEEPEST):
        text, changed = _CODE.subn(_code, text)
        if not changed:
            break
    return text.replace(_LEFT, "<").replace(_RIGHT, ">")


def _wide(match: re.Match[str]) -> str:
    if len(match[2]) != len(match[4]):
        return match[0]
    return f"{match[1]}<{match[3].replace('<', _LEFT).replace('>', _RIGHT)}>"


def _code(match: re.Match[str]) -> str:
    code, content = match[1], match[2]
    if code == "E":
        return _ESCAPES.get(content, "").replace("<", _LEFT).replace(">", _RIGHT) or _character(content)
    if code in "XZ":
        return ""
    if code == "L":
        shown, bar, _ = content.partition("|")
        return shown if bar else content.strip('"/')
    return content


def _character(name: str) -> str:
    try:
        return chr(int(name, 0))
    except (ValueError, OverflowError):
        return name
