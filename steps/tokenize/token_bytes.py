"""How many bytes of text each token stands for, so that any choice of targets has exact bits a byte.

Beside the index of a token store lies `token_bytes.npy`: int32[V], 0 for special tokens. Tokenizers are
byte-level: each character of a token's name is one byte, and a document's tokens together
are its bytes. Both are checked where tokens are made, and again where the table is used.
"""

import io
from typing import Any

import numpy as np

from marin_exec import StepFailed
from steps.files import read_bytes, write_bytes
from steps.tokenize.store import TokenCell

TOKEN_BYTES_FILE = "token_bytes.npy"


def token_bytes(tokenizer: Any) -> np.ndarray:
    """Returns the bytes that each token of a byte-level `tokenizers.Tokenizer` stands for: int32[V], special ones 0."""
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    names = tokenizer.get_vocab()
    found = np.zeros(max(names.values()) + 1, dtype=np.int32)  # there may be numbers that no token has
    for name, number in names.items():
        found[number] = 0 if number in special else len(name)
    return found


def check_token_bytes(cell: TokenCell, lengths: np.ndarray, where: str) -> None:
    """Checks that the tokens of every document add up to its bytes.

    Args:
        cell: of D documents.
        lengths: int32[V], bytes of each token.
        where: named in the error.

    Raises:
        StepFailed: a token has no length, or a document's tokens have more or fewer bytes than its text.
    """
    if int(cell.tokens.max(initial=0)) >= len(lengths):
        raise StepFailed(
            f"{where}: token {int(cell.tokens.max())}, but bytes of tokens 0 to {len(lengths) - 1} are known"
        )
    ends = np.concatenate([[0], np.cumsum(lengths[cell.tokens], dtype=np.int64)])
    found = np.diff(ends[cell.offsets])
    wrong = np.flatnonzero(found != cell.document_bytes)
    if wrong.size:
        first = int(wrong[0])
        raise StepFailed(
            f"{where}: the tokens of document {cell.document_ids[first]} stand for {found[first]} bytes, its text has "
            f"{cell.document_bytes[first]}. The tokenizer must be byte-level and leave texts as "
            "they are; where it composes characters (NFC), so must documents/normalize (unicode_form). If all that is so, the "
            "store is damaged: run tokenize/cache again"
        )


def write_token_bytes(full_path: str, lengths: np.ndarray) -> None:
    """Writes int32[V] bytes of each token as a `.npy` file, the same bytes for the same values."""
    body = io.BytesIO()
    np.save(body, np.ascontiguousarray(lengths, dtype="<i4"))
    write_bytes(full_path, body.getvalue())


def read_token_bytes(path: str) -> np.ndarray:
    """Returns int32[V], bytes of each token, from the token store at `path`.

    Raises:
        StepFailed: the store has none, or the file is damaged.
    """
    where = f"{path.rstrip('/')}/{TOKEN_BYTES_FILE}"
    try:
        return np.load(io.BytesIO(read_bytes(where)), allow_pickle=False)
    except FileNotFoundError as error:
        raise StepFailed(f"{where}: not there; run tokenize/cache again with this version") from error
    except (ValueError, EOFError) as error:
        raise StepFailed(f"{where}: not an array ({error}); the store is damaged: run tokenize/cache again") from error
