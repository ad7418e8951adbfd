"""Mail: the subject and the text of a message; its other headers, attachments and signatures' keys are left out.

Mail of real people holds names and addresses in the text too: a source of it is never to be shown.
"""

import email
import email.header
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

from steps.sources.decoding import Unusable
from steps.sources.formats.file import Piece, SourceFile
from steps.sources.formats.html import html_text


@dataclass(frozen=True)
class Mail:
    """How messages (one a file) are read."""

    labels: tuple[tuple[str, str], ...] = ()
    """(prefix of the folder's name, label): the label goes to the metadata."""

    def pieces(self, file: SourceFile) -> Iterator[Piece]:
        """Yields one text: subject, empty line, body."""
        message = email.message_from_bytes(file.content())
        body = _body(message)
        if not body.strip():
            raise Unusable("no_text")
        folder = file.name.split("/")[-2] if "/" in file.name else ""
        label = next((label for prefix, label in self.labels if folder.startswith(prefix)), None)
        fields = {"folder": folder} | ({"label": label} if label else {})
        yield Piece(f"{_subject(message)}\n\n{body.strip()}\n", fields=fields)


def _subject(message: Message) -> str:
    raw = str(message.get("Subject", ""))
    try:
        text = str(email.header.make_header(email.header.decode_header(raw)))
    except (ValueError, LookupError):  # an encoded word that is none, or in an unknown charset
        text = raw
    return " ".join(_clean(text).split())


def _body(message: Message) -> str:
    """Returns the plain text parts, or the HTML ones as text if there are none."""
    parts = [part for part in message.walk() if not part.is_multipart() and part.get_content_maintype() == "text"]
    plain = [part for part in parts if part.get_content_subtype() != "html"]
    if plain:
        return "\n\n".join(_decoded(part) for part in plain)
    return "\n\n".join(html_text(_decoded(part)) for part in parts)


def _decoded(part: Message) -> str:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)  # what is not multipart is bytes
    charset = part.get_content_charset("utf-8")
    try:
        return _clean(payload.decode(charset))
    except (UnicodeDecodeError, LookupError):
        return _clean(payload.decode("latin-1"))  # what mail of that time was in, when it said nothing true


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\x00", "")
