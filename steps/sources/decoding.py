"""Bytes of files to text, for sources that leave out and count what cannot be read."""

import io
import tokenize


class Unusable(Exception):
    """A file that gives no text, with the reason as a counter's name."""


def decoded(content: bytes) -> str:
    """Returns UTF-8 content as text with newlines as "\\n", without a byte order mark.

    Raises:
        Unusable: it is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Unusable("undecodable") from error


def decoded_python(content: bytes) -> str:
    """Returns Python source, decoded by its coding line (PEP 263).

    Raises:
        Unusable: it has no such encoding.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding).replace("\r\n", "\n")
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Unusable("undecodable") from error
