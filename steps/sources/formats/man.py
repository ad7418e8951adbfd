"""Manual pages in roff: the macro packages man and mdoc, and tables, as text; what only a typesetter needs is left out.

A reading of the macros that manual pages use, not a roff: definitions, conditions and registers are skipped.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import Unusable, decoded
from steps.sources.formats.file import Piece, SourceFile
from steps.sources.formats.layout import Layout
from steps.sources.formats.roff import arguments, plain

_HEADINGS = frozenset({"SH", "SS", "Sh", "Ss"})
_PARAGRAPHS = frozenset("PP LP P HP sp Pp Bl El Bd Ed RS RE TQ Lp Rs Re".split())
_SPACED = frozenset({"B", "I", "SM", "SB", "R", "CW"})
_JOINED = frozenset({"BR", "IR", "RB", "RI", "BI", "IB"})
_VERBATIM = {"nf": True, "EX": True, "Vb": True, "fi": False, "EE": False, "Ve": False}
# mdoc: macros that only set type, or that may stand as words inside another's arguments.
_MDOC_WORDS = frozenset(
    "Ad An Ap Ar Bo Bc Bq Brc Bro Brq Cd Cm Dc Do Dq Dv Em Er Ev Fa Fc Fl Fn Fo Ft Fx Ic In Li Lk Ms Mt Nm No Ns Oc Oo Op Ox Pa "
    "Pc Pf Po Pq Qc Qo Qq Sc Sm So Sq St Sx Sy Tn Ux Va Vt Xr Bx Nx At Lb Nd It D1 Dl".split()
)
_MDOC_LINES = frozenset({"It", "D1", "Dl"})


@dataclass(frozen=True)
class Man:
    """How manual pages are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the page's. A page that only names another (".so man3/printf.3") is Unusable."""
        source = decoded(file.content())
        if re.fullmatch(r"(?:[.']\\\".*\n|\s*\n)*\.so .*\n?(?:[.']\\\".*\n?|\s*\n)*", source[:4_000]):
            raise Unusable("alias")
        yield Piece(man_text(source))


def man_text(source: str) -> str:
    """Returns the text of a manual page."""
    return _Page(source).text()


class _Page:
    def __init__(self, source: str) -> None:
        self._layout = Layout()
        self._lines = iter(source.replace("\\\n", "").split("\n"))
        self._verbatim = False
        self._tag_next = False  # the next line is the term of a paragraph
        self._name = ""  # of the page, for mdoc's .Nm without arguments

    def text(self) -> str:
        for line in self._lines:
            if line[:1] in (".", "'"):
                self._request(line[1:].lstrip(" \t"))
            else:
                self._say(plain(line))
        return self._layout.text()

    def _say(self, text: str) -> None:
        if self._verbatim:
            self._layout.add(text + "\n")
        elif not text.strip():
            self._layout.break_paragraph()
        else:
            self._layout.add(text + " ")
            if self._tag_next:
                self._layout.break_line()
            self._tag_next = False

    def _request(self, line: str) -> None:
        name, rest = _split_name(line)
        if name in _HEADINGS:
            self._set_verbatim(False)
            self._layout.break_paragraph()
            self._say(" ".join(map(plain, arguments(rest))))
            self._layout.break_paragraph()
        elif name in _PARAGRAPHS:
            self._layout.break_paragraph()
            self._tag_next = name == "TQ"
        elif name == "TP":
            self._layout.break_paragraph()
            self._tag_next = True
        elif name == "IP":
            self._layout.break_paragraph()
            if words := arguments(rest):
                self._say(plain(words[0]))
        elif name == "br":
            self._layout.break_line()
        elif name in _VERBATIM:
            self._set_verbatim(_VERBATIM[name])
        elif name in _SPACED:
            self._say(" ".join(map(plain, arguments(rest))))
        elif name in _JOINED:
            self._say("".join(map(plain, arguments(rest))))
        elif name in ("UR", "MT"):
            self._say(plain(rest))
        elif name == "TS":
            self._table()
        elif name in ("de", "de1", "am", "ig"):
            self._skip_to("..")
        elif name == "EQ":
            self._skip_to(".EN")
        elif name in ("if", "ie", "el"):
            self._skip_condition(rest)
        elif name in _MDOC_WORDS:
            self._mdoc(name, rest)

    def _set_verbatim(self, on: bool) -> None:
        self._layout.verbatim(on)
        self._verbatim = on

    def _skip_to(self, end: str) -> None:
        for line in self._lines:
            if line.rstrip() == end:
                return

    def _skip_condition(self, rest: str) -> None:
        """Leaves out what a condition guards: the rest of the line, or all to the matching brace."""
        depth = rest.count("\\{") - rest.count("\\}")
        while depth > 0 and (line := next(self._lines, None)) is not None:
            depth += line.count("\\{") - line.count("\\}")

    def _table(self) -> None:
        """Writes the cells of a tbl table, a row a line."""
        separator, in_format, in_block = "\t", True, False
        self._layout.break_paragraph()
        for line in self._lines:
            if line.startswith(".TE"):
                break
            if in_format:
                if match := re.search(r"tab ?\((.)\)", line):
                    separator = match[1]
                in_format = not line.rstrip().endswith(".")
            elif line.startswith(".T&"):
                in_format = True
            elif line[:1] == "." and not line[1:2].isdigit():
                self._request(line[1:])
            else:
                in_block = (in_block or line.rstrip().endswith("T{")) and not line.startswith("T}")
                cells = line.replace("T{", "").replace("T}", "").split(separator)
                self._layout.add(" ".join(plain(cell) for cell in cells if cell.strip("_=- ")) + " ")
                if not in_block:
                    self._layout.break_line()
        self._layout.break_paragraph()

    def _mdoc(self, name: str, rest: str) -> None:
        words, said = arguments(rest), []
        if name == "Nm":
            self._name = self._name or (plain(words[0]) if words else "")
            if not words or words[0] in _MDOC_WORDS or len(words[0]) == 1:
                words = [self._name, *words]
        if name == "Xr" and len(words) > 1:
            words = [f"{words[0]}({words[1]})", *words[2:]]
        if name == "Fl":
            words = [f"-{words[0]}" if words else "-", *words[1:]]
        flag = False
        for word in words:
            if word in _MDOC_WORDS:
                flag = word == "Fl"
            else:
                said.append(("-" if flag else "") + plain(word))
                flag = False
        text = " ".join(said)
        if name in _MDOC_LINES:
            self._layout.break_paragraph()
        self._say(f"[{text}]" if name == "Op" else text)
        if name in _MDOC_LINES:
            self._layout.break_line()


def _split_name(line: str) -> tuple[str, str]:
    """Returns the name of a request, and its arguments as they stand, without a comment."""
    parts = line.split(None, 1)
    if not parts or parts[0].startswith('\\"'):
        return "", ""
    return parts[0], parts[1] if len(parts) > 1 else ""
