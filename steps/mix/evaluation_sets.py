"""Evaluation sets as arrays: held-out documents cut into sequences so that every byte of them is predicted exactly once."""

from dataclasses import dataclass

import numpy as np

from steps.tokenize.store import TokenCell, read_cell, read_index
from steps.tokenize.token_bytes import check_token_bytes, read_token_bytes


@dataclass(frozen=True, eq=False)
class EvaluationSet:
    """One evaluation set cut into sequences so that every byte of it is predicted exactly once."""

    tokens: np.ndarray
    """int32[n, S + 1]: inputs are tokens[:, :-1], targets tokens[:, 1:]."""
    segment_ids: np.ndarray
    """int32[n, S + 1]: number of the document within the row; -1 on padding."""
    loss_mask: np.ndarray
    """bool[n, S]: which targets count: not begin tokens, not padding."""
    target_bytes: np.ndarray
    """int32[n, S]: UTF-8 bytes that each target stands for, 0 for special tokens. Bits per byte of any counted targets is
    their loss in nats, summed, / ln 2 / their bytes."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all counted targets: of all documents, where each starts with a begin token."""
        return int(self.target_bytes[self.loss_mask].sum())


def evaluation_batches(tokens_path: str, sequence_length: int) -> dict[str, EvaluationSet]:
    """Returns the evaluation sets of a token store, by name, in order of name.

    Args:
        tokens_path: token store of tokenize/cache over held-out documents, one cell a set.
        sequence_length: S, in tokens.
    """
    index = read_index(tokens_path)
    lengths = read_token_bytes(tokens_path)
    sets = {}
    for entry in index.cells:
        cell = read_cell(tokens_path, entry.name, index)
        check_token_bytes(cell, lengths, f"{tokens_path}: cell {entry.name}")
        sets[entry.name] = _evaluation_set(cell, sequence_length, index.begin_token, lengths)
    return sets


def _evaluation_set(
    cell: TokenCell, sequence_length: int, begin_token: int | None, lengths: np.ndarray
) -> EvaluationSet:
    num_tokens, length = len(cell.tokens), sequence_length
    num_sequences = max(1, -(-(num_tokens - 1) // length))
    padded = np.full(num_sequences * length + 1, begin_token or 0, dtype=np.int32)
    padded[:num_tokens] = cell.tokens
    document = np.searchsorted(cell.offsets, np.arange(len(padded)), side="right") - 1
    places = np.arange(num_sequences)[:, None] * length + np.arange(length + 1)[None, :]
    real = places < num_tokens
    segments = document[places] - document[places[:, :1]]
    first = np.zeros(len(padded), dtype=bool)
    first[cell.offsets[:-1]] = begin_token is not None
    mask = real[:, 1:] & ~first[places[:, 1:]]
    tokens, segment_ids = padded[places], np.where(real, segments, -1).astype(np.int32)
    return EvaluationSet(tokens, segment_ids, mask, lengths[tokens[:, 1:]])
