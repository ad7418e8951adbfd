"""Readers: one file's bytes to raw documents, for JSON lines, Parquet and text files.

A document that cannot be read stops the reader with the file, the line or row, and what to do: it is never skipped.
Compressed files (.gz, .zst) are streamed, all their members or frames, and must be complete to the last byte.
"""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from marin_exec import StepFailed, open_file
from steps.sources.raw import RawDocument, metadata_json

SUFFIXES: dict[str, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet",),
    "text": (".txt", ".text"),
    "markdown": (".md", ".markdown"),
}
COMPRESSIONS = (".gz", ".zst")

_CHUNK_BYTES = 1 << 20


@dataclass
class Reader:
    """Reads one file; `replaced` counts the documents in which invalid UTF-8 was replaced."""

    url: str
    """Local path or URL."""
    name: str
    """Path relative to the source's root: part of source ids, and named in errors beside the URL."""
    format: str
    text_field: str
    id_field: str | None
    invalid_utf8: str
    replaced: int = 0

    def documents(self) -> Iterator[RawDocument]:
        """Yields the file's documents in order.

        Raises:
            StepFailed: the file is damaged, or a document lacks its text or has invalid UTF-8 (policy "error").
        """
        with open_file(self.url, "rb") as file:
            if self.format == "parquet":
                yield from self._parquet(file)
            elif self.format == "jsonl":
                yield from self._json_lines(file)
            else:
                content = b"".join(self._decompressed(file))
                text, replaced = self._text(content.removeprefix(codecs.BOM_UTF8), "")
                self.replaced += replaced
                yield RawDocument(self.name, text, metadata_json({"file": self.name}))

    def _fail(self, where: str, problem: str, advice: str) -> NoReturn:
        raise StepFailed(f"{self.url}{where}: {problem}. {advice}")

    def _decompressed(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yields the file's content in pieces; what was read before damage shows is yielded first."""
        received = 0
        try:
            if self.name.endswith(COMPRESSIONS):
                if not file.read(1):
                    raise EOFError("the file is empty")
                file.seek(0)
            if self.name.endswith(".gz"):
                # Small reads: GzipFile loses what it had decompressed in the read that meets the damage.
                source: Any = gzip.GzipFile(fileobj=file)
                while piece := source.read(io.DEFAULT_BUFFER_SIZE):
                    received += len(piece)
                    yield piece
            elif self.name.endswith(".zst"):
                for piece in _zstandard_pieces(file):
                    received += len(piece)
                    yield piece
            else:
                while piece := file.read(_CHUNK_BYTES):
                    yield piece
        except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError, EOFError) as error:
            self._fail(
                "",
                f"compressed data is damaged or cut off after {received} bytes of content ({error})",
                "Fetch the file again and compare its checksum with the origin's; nothing of it was committed",
            )

    def _lines(self, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yields line numbers from 1 and lines; only the newline byte ends a line, so U+2028 in a text is safe."""
        rest: list[bytes] = []
        number = 1
        try:
            for piece in self._decompressed(file):
                first, *others = piece.split(b"\n")
                rest.append(first)
                for other in others:
                    yield number, b"".join(rest)
                    rest = [other]
                    number += 1
        except StepFailed as error:
            raise StepFailed(f"{error} (in line {number})") from error
        yield number, b"".join(rest)

    def _json_lines(self, file: IO[bytes]) -> Iterator[RawDocument]:
        for number, line in self._lines(file):
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if not line.strip():
                continue
            where = f":{number}"
            decoded, replaced = self._text(line, where)
            try:
                record = json.loads(decoded)
            except (
                ValueError,
                RecursionError,
            ) as error:  # JSONDecodeError, or a number of more digits than Python reads
                self._fail(where, f"not JSON ({error})", "One JSON object a line is needed; mend or remove the line")
            if not isinstance(record, dict):
                self._fail(where, f"a JSON {type(record).__name__}", "One JSON object a line is needed")
            yield self._document(record, where, f"{self.name}:{number}", replaced)

    def _parquet(self, file: IO[bytes]) -> Iterator[RawDocument]:
        row = 0
        try:
            parquet = pq.ParquetFile(file)
            names = parquet.schema_arrow.names
            for field in filter(None, (self.text_field, self.id_field)):
                if (count := names.count(field)) != 1:
                    problem = f"{count or 'no'} column{'s' * (count > 1)} {field!r}; it has {names}"
                    self._fail("", problem, "Set text_field and id_field to columns of it, each there once")
            for batch in parquet.iter_batches(batch_size=1_024):
                # As bytes: a string column may hold invalid UTF-8, which must meet the policy and not a traceback.
                position = batch.schema.get_field_index(self.text_field)
                text_type = batch.schema.field(position).type
                texts = self._bytes_column(batch.column(position), text_type)
                others = batch.drop_columns([self.text_field]).to_pylist()
                for record, text in zip(others, texts, strict=True):
                    where = f" row {row}"
                    decoded, replaced = (None, False) if text is None else self._text(text, where)
                    yield self._document({**record, self.text_field: decoded}, where, f"{self.name}:{row}", replaced)
                    row += 1
        except UnicodeDecodeError as error:
            self._fail(f" from row {row}", f"invalid UTF-8 beside the text ({error})", "Write those columns as binary")
        except (pa.ArrowInvalid, OSError) as error:
            self._fail(
                "", f"not a complete Parquet file ({error})", "Fetch the file again; nothing of it was committed"
            )

    def _bytes_column(self, column: pa.Array, found: pa.DataType) -> list[bytes | None]:
        if pa.types.is_dictionary(found):
            column, found = column.dictionary_decode(), found.value_type
        if pa.types.is_string_view(found):
            column, found = column.cast(pa.string()), pa.string()
        if not (pa.types.is_string(found) or pa.types.is_large_string(found)):
            self._fail("", f"column {self.text_field!r} has type {found}", "Set text_field to a column of strings")
        return column.cast(pa.large_binary()).to_pylist()

    def _document(self, record: dict[str, Any], where: str, place: str, replaced: bool) -> RawDocument:
        text = record.pop(self.text_field, None)
        if not isinstance(text, str):
            problem = f"field {self.text_field!r} holds {text!r}" if text is not None else f"no {self.text_field!r}"
            fields = sorted(record)
            self._fail(
                where, f"{problem}; it has {fields}", "Set text_field to a field that holds text in every record"
            )
        if self.id_field is None:
            source_id = place
        elif record.get(self.id_field) is None:
            self._fail(
                where, f"no {self.id_field!r}; it has {sorted(record)}", "Set id_field to a field of every record"
            )
        else:
            source_id = str(record.pop(self.id_field))
        # JSON can spell lone surrogates, which no UTF-8 text can hold.
        text, unpaired = self._text(text.encode("utf-8", "surrogatepass"), where)
        source_id, unpaired_id = self._text(source_id.encode("utf-8", "surrogatepass"), where)
        self.replaced += replaced or unpaired or unpaired_id
        metadata = metadata_json({**record, "file": self.name})
        return RawDocument(source_id, text, metadata.encode("utf-8", "replace").decode())

    def _text(self, content: bytes, where: str) -> tuple[str, bool]:
        """Returns the decoded text, and whether invalid bytes in it were replaced."""
        try:
            return content.decode("utf-8"), False
        except UnicodeDecodeError as error:
            if self.invalid_utf8 == "error":
                line = "" if where else f":{content[: error.start].count(b'\n') + 1}"
                self._fail(
                    f"{where}{line}",
                    f"invalid UTF-8, byte 0x{content[error.start]:02x} at offset {error.start}",
                    'Convert it to UTF-8, or set invalid_utf8="replace" to put U+FFFD there',
                )
            return content.decode("utf-8", "replace"), True


def _zstandard_pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the content of all frames; unlike the library's stream reader it raises where the last one is cut off."""
    decompressor = None
    pending = b""
    while chunk := pending or file.read(_CHUNK_BYTES):
        if decompressor is None:
            decompressor = zstandard.ZstdDecompressor().decompressobj()
        if piece := decompressor.decompress(chunk):
            yield piece
        pending = b""
        if decompressor.eof:
            pending = decompressor.unused_data
            decompressor = None
    if decompressor is not None:
        raise EOFError("the last frame is not complete")
