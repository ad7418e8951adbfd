"""WordNet's data files: one text a synset, its words and its gloss, as in "object, physical object: a tangible ...\"."""

from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import Unusable, decoded
from steps.sources.formats.file import Piece, SourceFile


@dataclass(frozen=True)
class WordNet:
    """How data.noun, data.verb, data.adj and data.adv are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields the synsets, placed by line from 1."""
        for number, line in enumerate(decoded(file.content()).splitlines(), start=1):
            if line.startswith("  "):
                continue  # the licence at the head
            head, bar, gloss = line.partition("|")
            columns = head.split()
            try:
                count = int(columns[3], 16)
                words = [columns[4 + 2 * index] for index in range(count)]
            except (IndexError, ValueError) as error:
                raise Unusable("damaged") from error
            if bar:
                # Adjectives carry their place in syntax: "galore(ip)".
                names = ", ".join(word.partition("(")[0].replace("_", " ") for word in words)
                yield Piece(f"{names}: {gloss.strip()}\n", str(number), {"part_of_speech": columns[2]})
