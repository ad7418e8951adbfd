"""Documents to tokens: a batch of documents at a time, and what must hold of the tokens of any document."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import StepFailed
from steps.tokenize.store import TokenCell
from steps.tokenize.token_bytes import check_token_bytes
from steps.tokenize.tokenizer import LoadedTokenizer

_ENCODE_DOCUMENTS = 1024  # bounds the memory that texts and encodings take


@dataclass(frozen=True, kw_only=True)
class TokenPolicy:
    """What stands at the ends of each document."""

    begin: int | None
    """Token before it; None: none."""
    end: int | None
    """Token after it; None: none."""
    special: tuple[int, ...]
    """The tokenizer's begin and end tokens: they stand nowhere else, whether the policy adds them or not."""


def token_policy(tokenizer: LoadedTokenizer, *, begin: bool, end: bool, where: str) -> TokenPolicy:
    """Returns the policy of a config.

    Raises:
        StepFailed: the tokenizer has no token that is to be added.
    """
    for wanted, token, name in ((begin, tokenizer.begin, "begin"), (end, tokenizer.end, "end")):
        if wanted and token is None:
            raise StepFailed(
                f"{where}: the tokenizer has no {name} token; set {name}=False in the config of tokenize/cache, or name one "
                f"in tokenize/adopt"
            )
    return TokenPolicy(
        begin=tokenizer.begin if begin else None,
        end=tokenizer.end if end else None,
        special=tuple(token for token in (tokenizer.begin, tokenizer.end) if token is not None),
    )


def encode_documents(
    tokenizer: LoadedTokenizer, policy: TokenPolicy, table: pa.Table, where: str
) -> Iterator[tuple[pa.Table, TokenCell]]:
    """Yields the documents of a table and their tokens, in order, at most 1,024 documents at a time.

    Args:
        tokenizer: from `load_tokenizer`.
        policy: from `token_policy`.
        table: columns id (str) and text (str); others are passed on.
        where: named in errors.

    Raises:
        StepFailed: a document gives no token.
    """
    first = [] if policy.begin is None else [policy.begin]
    last = [] if policy.end is None else [policy.end]
    for start in range(0, table.num_rows, _ENCODE_DOCUMENTS):
        part = table.slice(start, _ENCODE_DOCUMENTS)
        texts = part["text"].to_pylist()
        encoded = tokenizer.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        rows = [np.array(first + each.ids + last, dtype=np.int32) for each in encoded]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = part["id"].to_pylist()
        if lengths.min() <= len(first) + len(last):
            raise StepFailed(f"{where}: document {ids[int(lengths.argmin())]} has no text to tokenise")
        num_bytes = np.array([len(text.encode()) for text in texts], dtype=np.int64)
        yield part, TokenCell(np.concatenate(rows), np.concatenate([[0], np.cumsum(lengths)]), ids, num_bytes)


def check_tokens(cell: TokenCell, policy: TokenPolicy, lengths: np.ndarray, where: str) -> None:
    """Checks documents as they were read back: special tokens by the policy, and bytes.

    Args:
        cell: some documents.
        policy: what stands at their ends.
        lengths: int32[V], bytes of each token.
        where: named in errors.

    Raises:
        StepFailed: names the first document that differs.
    """
    check_special_tokens(cell, policy, where)
    check_token_bytes(cell, lengths, where)


def check_special_tokens(cell: TokenCell, policy: TokenPolicy, where: str) -> None:
    """Checks that begin and end tokens stand where the policy puts them, and nowhere else.

    Raises:
        StepFailed: names the first document that differs. A store without them costs a run, and training never tells.
    """
    empty = np.flatnonzero(np.diff(cell.offsets) <= 0)
    if empty.size:
        raise StepFailed(f"{where}: document {cell.document_ids[empty[0]]} has no token")
    expected = np.full(len(cell.tokens), -1, dtype=np.int32)
    if policy.begin is not None:
        expected[cell.offsets[:-1]] = policy.begin
    if policy.end is not None:
        expected[cell.offsets[1:] - 1] = policy.end
    found = np.where(np.isin(cell.tokens, policy.special), cell.tokens, -1)
    wrong = np.flatnonzero(found != expected)
    if wrong.size:
        position = int(wrong[0])
        document = int(np.searchsorted(cell.offsets, position, side="right")) - 1
        raise StepFailed(
            f"{where}: document {cell.document_ids[document]} has token {cell.tokens[position]} at its place "
            f"{position - int(cell.offsets[document])}; the begin token ({policy.begin}) must stand first, the end token "
            f"({policy.end}) last, and both nowhere else"
        )
