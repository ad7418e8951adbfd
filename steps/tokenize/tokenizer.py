"""Loads the tokenizer in the output of tokenize/train_bpe or tokenize/adopt, as the token steps use it.

Text alone decides its tokens: the name of a special token inside a document is plain text, nothing is put before or after
it, and a tokenizer file that says to cut or to fill up is not obeyed.
"""

import json
from dataclasses import dataclass
from typing import Any

import xxhash

from marin_exec import StepFailed
from steps.files import read_bytes, write_json

TOKENIZER_FILE = "tokenizer.json"
SPECIAL_TOKENS_FILE = "special_tokens.json"
BEGIN_TOKEN = "<|begin_of_text|>"
END_TOKEN = "<|end_of_text|>"


@dataclass(frozen=True, eq=False)
class LoadedTokenizer:
    """A tokenizer and what stands at the ends of documents."""

    tokenizer: Any
    """A `tokenizers.Tokenizer`."""
    digest: str
    """xxh3-128 of the file's bytes: its revision."""
    begin: int | None
    """Token that can stand before a document; None if it has none."""
    end: int | None
    """Token that can stand after one; in GPT-2's it is the same."""


def load_tokenizer(path: str) -> LoadedTokenizer:
    """Returns the tokenizer in a step's output directory.

    Raises:
        StepFailed: there is none, it cannot be read, or a special token is not in its vocabulary.
    """
    where = f"{path.rstrip('/')}/{TOKENIZER_FILE}"
    try:
        body = read_bytes(where)
    except FileNotFoundError as error:
        raise StepFailed(f"{where}: not there; the output of tokenize/train_bpe or tokenize/adopt is needed") from error
    tokenizer = parse_tokenizer(body, where)
    begin, end = (_token(tokenizer, name, where) for name in _special_names(path))
    return LoadedTokenizer(tokenizer, xxhash.xxh3_128_hexdigest(body), begin, end)


def parse_tokenizer(body: bytes, where: str) -> Any:
    """Returns a `tokenizers.Tokenizer` that gives each text its own tokens and nothing else.

    Raises:
        StepFailed: the bytes are no tokenizer.json.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(body)
    except ValueError as error:
        raise StepFailed(f"{where}: not a tokenizer.json of the tokenizers library ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def write_special_tokens(full_path: str, begin: str | None, end: str | None) -> None:
    """Writes the names of the tokens that can stand before and after a document."""
    write_json(full_path, {"begin": begin, "end": end})


def _special_names(path: str) -> tuple[str | None, str | None]:
    try:
        names = json.loads(read_bytes(f"{path.rstrip('/')}/{SPECIAL_TOKENS_FILE}"))
    except FileNotFoundError:  # tokenize/train_bpe writes none: its own names
        return BEGIN_TOKEN, END_TOKEN
    return names["begin"], names["end"]


def _token(tokenizer: Any, name: str | None, where: str) -> int | None:
    number = None if name is None else tokenizer.token_to_id(name)
    if name is not None and number is None:
        raise StepFailed(f"{where}: no token {name!r} in its vocabulary; name one that is there in tokenize/adopt")
    return number
