"""Files that are text as they are: prose, YAML, Python source, and JSON records that hold one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from steps.sources.decoding import Unusable, decoded, decoded_python
from steps.sources.formats.file import Piece, SourceFile


@dataclass(frozen=True)
class PlainText:
    """How text files are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the file's, decoded from UTF-8."""
        yield Piece(decoded(file.content()))


@dataclass(frozen=True)
class PythonSource:
    """How .py files are read: nothing can be set."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: the file's, decoded by its coding line."""
        yield Piece(decoded_python(file.content()))


@dataclass(frozen=True, kw_only=True)
class JsonText:
    """How files that hold one JSON object are read."""

    text_field: str = "text"
    """The field with the text."""
    fields: tuple[str, ...] = ()
    """Fields that go to the metadata, where they are there."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: that of the field."""
        try:
            record = json.loads(decoded(file.content()))
        except (ValueError, RecursionError) as error:
            raise Unusable("unparsed") from error
        if not isinstance(record, dict) or not isinstance(record.get(self.text_field), str):
            raise Unusable("no_text_field")
        fields = {name: record[name] for name in self.fields if isinstance(record.get(name), str | int)}
        yield Piece(record[self.text_field], fields=fields)
