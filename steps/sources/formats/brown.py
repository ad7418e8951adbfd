"""The Brown corpus as "word/tag" tokens: the words, set as prose; the genre from cats.txt beside the files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import Unusable, decoded
from steps.sources.formats.file import Piece, SourceFile

_CLOSING = re.compile(r" ([.,;:!?)\]']+|'')(?= |$)")
_OPENING = re.compile(r"(^| )([(\[]|``) ")


@dataclass(frozen=True)
class Brown:
    """How the corpus is read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the sample's, a paragraph a line."""
        genres = dict(line.split()[:2] for line in decoded(file.beside("cats.txt")).splitlines() if " " in line)
        name = file.name.rpartition("/")[2]
        if name not in genres:
            raise Unusable("no_genre")
        lines = []
        for line in decoded(file.content()).splitlines():
            words = [token.rpartition("/")[0] for token in line.split() if "/" in token]
            if words:
                lines.append(_prose(" ".join(words)))
        yield Piece("\n".join(lines) + "\n", fields={"genre": genres[name]})


def _prose(words: str) -> str:
    tight = _OPENING.sub(r"\1\2", _CLOSING.sub(r"\1", words))
    return tight.replace("``", "“").replace("''", "”")
