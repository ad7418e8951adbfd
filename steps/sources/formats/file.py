"""What a format reads, and what it gives: a file of a folder, and the texts in it."""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from steps.sources.decoding import Unusable

_LARGEST_BYTES = 256_000_000
"""Unpacked: the largest file of the corpora has 52 MB, and a few kB of gzip can hold gigabytes."""


class Piece(NamedTuple):
    """One text of a file."""

    text: str
    place: str = ""
    """Where in the file; "" if the file is one text."""
    fields: Mapping[str, str | int] = MappingProxyType({})
    """What the file says of the text: a genre, a label, a headword."""


@dataclass(frozen=True)
class SourceFile:
    """A file below a folder."""

    root: Path
    name: str
    """Path relative to `root`, with "/"."""

    def content(self) -> bytes:
        """Returns the bytes; a name that ends in .gz or .dz is decompressed.

        Raises:
            Unusable: the compressed data is damaged, or unpacks to more than 256 MB.
        """
        path = self.root / self.name
        if path.suffix not in (".gz", ".dz"):
            return path.read_bytes()
        try:
            with gzip.open(path) as file:
                content = file.read(_LARGEST_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise Unusable("damaged") from error
        if len(content) > _LARGEST_BYTES:
            raise Unusable("too_large")
        return content

    def beside(self, name: str) -> bytes:
        """Returns the bytes of a file in the same folder.

        Raises:
            Unusable: there is none.
        """
        try:
            return (self.root / self.name).with_name(name).read_bytes()
        except FileNotFoundError as error:
            raise Unusable("incomplete") from error


class Format(Protocol):
    """How files of one format are read."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields the texts of a file in order.

        Raises:
            Unusable: the file gives no text; the reason is the name of a counter.
        """
        ...
