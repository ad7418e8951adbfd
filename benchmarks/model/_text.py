"""Real text that every machine has, as tokens: the source files of Python's standard library, byte by byte.

Files differ in subject and manner as documents do, so tokens of one file are routed alike. A row is packed with pieces of
files, all of one length; pieces of held-out files never stand in training rows.
"""

import sysconfig
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

VOCABULARY = 256
_SHORTEST_BYTES = 4096


def files(*, held_out: bool) -> list[np.ndarray]:
    """Returns the bytes of the library's modules, i32 each, by name; a tenth of the names is held out."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    chosen = [path for path in paths if (zlib.crc32(path.name.encode()) % 10 == 0) == held_out]
    texts = [np.frombuffer(path.read_bytes(), np.uint8).astype(np.int32) for path in chosen]
    return [text for text in texts if len(text) >= _SHORTEST_BYTES]


def packed_rows(
    texts: Sequence[np.ndarray], *, num_rows: int, sequence_length: int, document_length: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns tokens and documents of each position, both i32[num_rows, sequence_length + 1].

    Args:
        texts: of `files`.
        num_rows: rows.
        sequence_length: positions that a row predicts.
        document_length: tokens of each piece; it divides `sequence_length`. The last piece of a row has one more.
        seed: of which pieces are taken.
    """
    random = np.random.default_rng(seed)
    pieces = sequence_length // document_length
    tokens = np.empty((num_rows, sequence_length + 1), np.int32)
    for row in tokens:
        for piece in range(pieces):
            length = document_length + (piece == pieces - 1)
            text = texts[int(random.integers(len(texts)))]
            start = int(random.integers(len(text) - length))
            row[piece * document_length :][:length] = text[start : start + length]
    segments = np.minimum(np.arange(sequence_length + 1) // document_length, pieces - 1).astype(np.int32)
    return tokens, np.repeat(segments[None], num_rows, axis=0)
