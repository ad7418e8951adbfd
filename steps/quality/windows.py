"""Reading a long document through three windows: its beginning, its middle and its end.

A document up to one window long is read whole. Of a longer one the score is the mean of its windows' scores, and these
are kept: a document whose middle is junk is told from one that is good throughout.
"""

from dataclasses import dataclass

import numpy as np

from marin_exec import StepFailed
from steps.config_checks import check_number
from steps.embed.encoders import Encoder, encode
from steps.embed.vectors import quantize, scale_of
from steps.quality.features import Blocks, FeatureSettings, read_blocks
from steps.quality.student import SavedStudent

NAMES = ("begin", "middle", "end")
"""The windows, in order."""
_SAME_ENCODER_COSINE = 0.98  # an int8 vector and its text's own differ by far less, two encoders by far more
_TEXTS_AT_ONCE = 2_048


@dataclass(frozen=True, kw_only=True)
class Windows:
    encoder: Encoder
    """The encoder of the embeddings: it embeds the windows of documents that are longer than one."""
    characters: int = 2_000
    """Of a window, about 512 tokens of English."""

    def __post_init__(self) -> None:
        check_number(self, "characters", low=1)


def window_spans(length: int, characters: int) -> list[tuple[int, int]]:
    """Returns where the windows of a text of `length` characters begin and end: one, or three of `characters` each.

    The windows of a text that is shorter than three of them overlap.
    """
    if length <= characters:
        return [(0, length)]
    starts = (0, (length - characters) // 2, length - characters)
    return [(start, start + characters) for start in starts]


def read_windows(
    texts: list[str], vectors: np.ndarray, settings: FeatureSettings, windows: Windows, scale: float, where: str
) -> Blocks:
    """Returns the blocks of n documents, one row or three each.

    Args:
        texts: n documents.
        vectors: float32[n, d], their embeddings: those of documents of one window are taken from here.
        settings: what is read of a window.
        windows: their size, and what embeds them.
        scale: of the embeddings.
        where: named in errors, e.g. the path of the embeddings.

    Raises:
        StepFailed: the embeddings are not by the windows' encoder.
    """
    spans = [window_spans(len(text), windows.characters) for text in texts]
    counts = np.array([len(each) for each in spans], dtype=np.int64)
    parts = [text[first:last] for text, pair in zip(texts, spans, strict=True) for first, last in pair]
    owners = np.repeat(np.arange(len(texts)), counts)
    rows = vectors[owners]
    _check_encoder(texts, vectors, counts, windows, scale, where)
    several = np.flatnonzero(counts[owners] > 1)
    for first in range(0, len(several), _TEXTS_AT_ONCE):
        chosen = several[first : first + _TEXTS_AT_ONCE]
        rows[chosen] = stored_form(encode(windows.encoder, [parts[row] for row in chosen]), windows.encoder.int8_range)
    lengths = [len(texts[owner]) for owner in owners]
    return read_blocks(parts, rows, settings, lengths=lengths, starts=np.cumsum(counts) - counts)


def read_documents_or_windows(
    texts: list[str], vectors: np.ndarray, saved: SavedStudent, windows: Windows | None, where: str
) -> Blocks:
    """Returns the blocks of n documents as the student reads them: through `windows`, or whole if there are none."""
    settings = saved.student.settings
    if windows is None:
        return read_blocks(texts, vectors, settings)
    return read_windows(texts, vectors, settings, windows, saved.student.scale, where)


def stored_form(vectors: np.ndarray, int8_range: float) -> np.ndarray:
    """Returns unit vectors, float32[n, d], as they come back from an embedding table."""
    restored = quantize(vectors, int8_range).astype(np.float32) * np.float32(scale_of(int8_range))
    return restored / np.maximum(np.linalg.norm(restored, axis=1, keepdims=True), 1e-12)


def _check_encoder(
    texts: list[str], vectors: np.ndarray, counts: np.ndarray, windows: Windows, scale: float, where: str
) -> None:
    """Looks whether the first document of one window has the vector that the windows' encoder gives it."""
    if scale != scale_of(windows.encoder.int8_range):
        raise StepFailed(
            f"{where}: embeddings of scale {scale}; the windows' encoder has {scale_of(windows.encoder.int8_range)}: state "
            f"the encoder that made the embeddings"
        )
    whole = np.flatnonzero(counts == 1)[:1]
    if not whole.size:
        return
    again = encode(windows.encoder, [texts[whole[0]]])
    if again.shape[1] != vectors.shape[1]:
        raise StepFailed(
            f"{where}: embeddings of {vectors.shape[1]} dimensions; the windows' encoder has {again.shape[1]}: state the encoder "
            f"that made the embeddings"
        )
    cosine = float(again[0] @ vectors[whole[0]])
    if cosine < _SAME_ENCODER_COSINE:
        raise StepFailed(
            f"{where}: the vector of row {whole[0]} and what the windows' encoder makes of its text have a cosine of "
            f"{cosine:.3f}: state the encoder that made the embeddings, with the same limits on tokens"
        )
