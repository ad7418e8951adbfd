"""Text out of marked-up documents: paragraphs, lines and verbatim blocks, as a text browser lays them out."""

import re

_WHITESPACE = re.compile(r"[ \t\n\r\f\v]+")


class Layout:
    """Collects text. Runs of ASCII whitespace become one space, except in verbatim blocks; U+00A0 is kept."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[str] = []
        self._verbatim = False

    def add(self, text: str) -> None:
        """Adds text to the line that is open."""
        self._open.append(text)

    def break_line(self) -> None:
        """Ends the open line, if there is anything on it."""
        text = "".join(self._open)
        self._open.clear()
        if self._verbatim:
            self._lines += [line.rstrip() for line in text.strip("\n").split("\n")]
        elif line := _WHITESPACE.sub(" ", text).strip(" "):
            self._lines.append(line)

    def break_paragraph(self) -> None:
        """Ends the open line, and leaves an empty line after it."""
        self.break_line()
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def verbatim(self, on: bool) -> None:
        """Begins or ends a block whose lines and spaces stay as they are."""
        if on != self._verbatim:
            self.break_paragraph()
            self._verbatim = on

    def text(self) -> str:
        """Returns all text so far; it ends with one newline, or is ""."""
        self.break_line()
        text = "\n".join(self._lines).strip("\n")
        return f"{text}\n" if text else ""
