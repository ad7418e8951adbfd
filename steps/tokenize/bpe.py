"""tokenize/train_bpe: a byte-level BPE trained on the kept documents.

Every byte is in the alphabet, so any text comes back as it went in. Text is first cut into pieces of at most 64
characters by a pattern in which every repetition is bounded: merging takes longer than linear time within a piece,
and an unbounded pattern makes one piece of five megabytes of spaces. Case, numbers of three digits and line ends are
cut as current models do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import xxhash

from marin_exec import InputPath, Out, StepFailed, kind
from steps.config_checks import check_number
from steps.contract import document_shards, read_documents
from steps.files import write_bytes
from steps.tokenize.groups import group_names
from steps.tokenize.tokenizer import BEGIN_TOKEN, END_TOKEN, TOKENIZER_FILE

_ALPHABET = 256
_PATTERN = (
    r"'(?:[sdmtSDMT]|ll|ve|re|LL|VE|RE)"
    r"|[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]{1,63}"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{M}\p{N}]{1,60}[\r\n]{0,3}"
    r"|\s{0,61}[\r\n]{1,3}"
    r"|\s{1,64}(?!\S)"
    r"|\s{1,64}"
)
_MEASURED_DOCUMENTS = 500


@dataclass(frozen=True, kw_only=True)
class BpeConfig:
    documents: InputPath
    """Directory with one documents data set a subdirectory, e.g. `cells / "cells"`."""
    vocabulary_size: int
    """Tokens, the 256 bytes and the two special tokens included."""
    training_bytes: int | None = None
    """Train on the first documents by id (a hash: a fair sample) up to this many bytes of text; None takes all."""
    min_frequency: int = 2
    """A pair seen less often is not merged."""

    def __post_init__(self) -> None:
        check_number(self, "vocabulary_size", low=_ALPHABET + 2)
        check_number(self, "training_bytes", "min_frequency", low=1)


@dataclass(frozen=True)
class BpeResult:
    vocabulary_size: int
    """May be less than asked for where the text is short."""
    training_documents: int
    training_bytes: int
    bytes_per_token: float
    """On the first 500 documents by id, special tokens not counted."""
    begin_token: int
    end_token: int
    tokenizer_digest: str
    """xxh3-128 of tokenizer.json."""


@kind("tokenize/train_bpe", version=1)
def train_bpe(config: BpeConfig, out: Out) -> BpeResult:
    """Trains the tokenizer and writes tokenizer.json, the same bytes for the same documents in any order and grouping.

    Raises:
        StepFailed: no documents, or a trained tokenizer does not give a text back.
    """
    texts = _training_texts(config)
    out.progress(f"training on {len(texts)} documents")
    tokenizer = _trained(config, texts)
    body = tokenizer.to_str(pretty=True).encode("utf-8")
    write_bytes(out.file(TOKENIZER_FILE), body)
    tokenizer.encode_special_tokens = True
    measured = texts[:_MEASURED_DOCUMENTS]
    encoded = tokenizer.encode_batch(measured, add_special_tokens=False)
    for text, encoding in zip(measured, encoded, strict=True):
        if tokenizer.decode(encoding.ids, skip_special_tokens=False) != text:
            raise StepFailed(f"the tokenizer does not give this text back: {text[:80]!r}")
    return BpeResult(
        vocabulary_size=tokenizer.get_vocab_size(),
        training_documents=len(texts),
        training_bytes=sum(len(text.encode()) for text in texts),
        bytes_per_token=sum(len(text.encode()) for text in measured) / sum(len(each.ids) for each in encoded),
        begin_token=tokenizer.token_to_id(BEGIN_TOKEN),
        end_token=tokenizer.token_to_id(END_TOKEN),
        tokenizer_digest=xxhash.xxh3_128_hexdigest(body),
    )


def _trained(config: BpeConfig, texts: list[str]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_PATTERN), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary_size,
        min_frequency=config.min_frequency,
        special_tokens=[BEGIN_TOKEN, END_TOKEN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    return tokenizer


def _documents(path: str) -> Iterator[tuple[str, str]]:
    for group in group_names(path):
        for shard in document_shards(f"{path}/{group}"):
            table = read_documents(f"{path}/{group}", shard, ["id", "text"])
            yield from zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True)


def _training_texts(config: BpeConfig) -> list[str]:
    """Texts in order of id, cut off at training_bytes: the same however the documents are spread over groups."""
    documents = sorted(_documents(config.documents))
    texts, size = [], 0
    for _, text in documents:
        size += len(text.encode())
        if config.training_bytes is not None and size > config.training_bytes and texts:
            break
        texts.append(text)
    if not texts:
        raise StepFailed(f"{config.documents}: no documents to train a tokenizer on")
    return texts
