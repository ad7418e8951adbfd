"""tokenize/adopt: takes a tokenizer that was made elsewhere, by the digest of its files.

`path` is a tokenizer.json (what `tokenizers` and transformers write), or a folder with GPT-2's two files, `encoder.json` and
`vocab.bpe` (or `vocab.json` and `merges.txt`). Output: tokenizer.json and special_tokens.json.

Byte-level tokenizers are taken (GPT-2, Llama 3, Qwen, OLMo, gpt-oss): those whose tokens are bytes, so that any text comes
back whole and bits a byte are exact. Others (SentencePiece, WordPiece) are refused.
"""

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any

import xxhash

from marin_exec import ConfigError, IdentityMismatch, Out, StepFailed, kind, runtime
from steps.files import names_in, read_bytes, write_bytes
from steps.tokenize.token_bytes import token_bytes
from steps.tokenize.tokenizer import (
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    load_tokenizer,
    parse_tokenizer,
    write_special_tokens,
)

_DIGEST = re.compile("[0-9a-f]{32}")
_PAIRS = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
_TRIED = (
    "Hello world",
    " a\n\tb  c\r\n",
    "don't 1234 == {x: [0]}",
    "Grüße, naïve café, e\u0301 \u00e9",
    "日本語 한국어 ไทย हिन्दी עברית العربية",
    "👩‍👩‍👧‍👦🇨🇭 \x00\x1b\u200b\ufeff",
)
"""Texts that must come back as they went in."""


@dataclass(frozen=True, kw_only=True)
class AdoptTokenizerConfig:
    path: Annotated[str, runtime]
    """A tokenizer.json, or a folder with GPT-2's two files; path or URL. Where it lies is no identity; `digest` is."""
    digest: str
    """xxh3-128 of the file (of both, one after the other), 32 hex digits: `python -m steps.tokenize.adopt PATH` prints it."""
    begin_token: str | None
    """Name of the token that stands before documents, e.g. "<|begin_of_text|>"; None if there is none."""
    end_token: str | None
    """Name of the token that stands after them, e.g. "<|endoftext|>", which may be the same; None if there is none."""

    def __post_init__(self) -> None:
        if isinstance(self.digest, str) and not _DIGEST.fullmatch(self.digest):
            raise ConfigError(
                f"AdoptTokenizerConfig.digest: {self.digest!r}; 32 hex digits are needed, as "
                f"`python -m steps.tokenize.adopt PATH` prints them"
            )


@dataclass(frozen=True, kw_only=True)
class AdoptTokenizerResult:
    vocabulary_size: int
    """One more than the highest token."""
    begin_token: int | None
    end_token: int | None
    normalizer: str | None
    """Name of its normaliser: texts that it changes are refused by tokenize/cache. None changes nothing."""
    tokenizer_digest: str
    """xxh3-128 of tokenizer.json as written."""


@kind("tokenize/adopt", version=1)
def adopt_tokenizer(config: AdoptTokenizerConfig, out: Out) -> AdoptTokenizerResult:
    """Checks the tokenizer and writes it for tokenize/cache.

    Raises:
        IdentityMismatch: the files are not those of the digest.
        StepFailed: there are none, they are not byte-level, a text does not come back, or a special token is missing.
    """
    bodies = _source_files(config.path)
    if (found := _digest(bodies)) != config.digest:
        raise IdentityMismatch(
            f"tokenizer {config.path}: its digest is {found}, the config states {config.digest}. It is another file, or was "
            f"edited: put its digest into the config if it is the one meant"
        )
    body = bodies[0] if len(bodies) == 1 else _from_pairs(bodies[0], bodies[1], config)
    tokenizer = parse_tokenizer(body, config.path)
    _check(tokenizer, config.path)
    write_bytes(out.file(TOKENIZER_FILE), body)
    write_special_tokens(out.file(SPECIAL_TOKENS_FILE), config.begin_token, config.end_token)
    loaded = load_tokenizer(out.path)
    return AdoptTokenizerResult(
        vocabulary_size=len(token_bytes(tokenizer)),
        begin_token=loaded.begin,
        end_token=loaded.end,
        normalizer=_name(tokenizer.normalizer),
        tokenizer_digest=loaded.digest,
    )


def tokenizer_digest(path: str) -> str:
    """Returns what `AdoptTokenizerConfig.digest` must be for a path.

    Raises:
        StepFailed: there is no tokenizer.
    """
    return _digest(_source_files(path))


def _digest(bodies: list[bytes]) -> str:
    state = xxhash.xxh3_128()
    for body in bodies:
        state.update(body)
    return state.hexdigest()


def _source_files(path: str) -> list[bytes]:
    names = names_in(path)
    for pair in _PAIRS:
        if set(pair) <= set(names):
            return [read_bytes(f"{path.rstrip('/')}/{name}") for name in pair]
    try:
        return [read_bytes(path)]
    except (FileNotFoundError, IsADirectoryError) as error:
        raise StepFailed(
            f"tokenizer {path}: neither a tokenizer.json nor a folder with {' or '.join(map(' and '.join, _PAIRS))}"
            f"{f'; it holds {names[:8]}' if names else ''}"
        ) from error


def _from_pairs(vocabulary: bytes, merges: bytes, config: AdoptTokenizerConfig) -> bytes:
    """tokenizer.json of a vocabulary and its merges, split as GPT-2 does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    lines = merges.decode("utf-8").split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    tokenizer = Tokenizer(models.BPE(vocab=json.loads(vocabulary), merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    named = [name for name in dict.fromkeys((config.begin_token, config.end_token)) if name is not None]
    if absent := [name for name in named if tokenizer.token_to_id(name) is None]:
        raise StepFailed(f"tokenizer {config.path}: no token {absent} in its vocabulary")
    tokenizer.add_special_tokens(named)
    return tokenizer.to_str(pretty=True).encode("utf-8")


def _check(tokenizer: Any, where: str) -> None:
    if (decoder := _name(tokenizer.decoder)) != "ByteLevel":
        raise StepFailed(
            f"tokenizer {where}: its decoder is {decoder}; only byte-level tokenizers (ByteLevel) are taken, whose tokens are "
            f"bytes of the text: with others a text may not come back, and bits a byte would not be exact"
        )
    composes = _name(tokenizer.normalizer) == "NFC"
    for text in _TRIED:
        wanted = unicodedata.normalize("NFC", text) if composes else text
        back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)
        if back != wanted:
            raise StepFailed(
                f"tokenizer {where}: {text!r} comes back as {back!r}; a tokenizer that adds, drops or changes characters "
                f"(add_prefix_space, a normaliser other than NFC) cannot be taken"
            )


def _name(part: Any) -> str | None:
    return None if part is None else type(part).__name__


if __name__ == "__main__":
    import sys

    print(tokenizer_digest(sys.argv[1]))
