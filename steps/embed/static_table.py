"""Distil MiniLM into a table of one vector a token: 26 CPU seconds once, whatever is embedded with it afterwards.

Every token of the vocabulary goes through the model alone ([CLS] token [SEP]); the vectors are centred, projected on
their first principal components, and scaled so that common tokens count little (the idea of the model2vec package).
"""

import time
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from marin_exec import Out, ShardOut, kind, measured
from steps.config_checks import check_number
from steps.embed.encoders import PINNED
from steps.embed.vectors import read_array, write_array

_CLS, _SEP = "[CLS]", "[SEP]"


@dataclass(frozen=True, kw_only=True)
class StaticTableConfig:
    model: str = PINNED
    """Distribution and version of the model to distil."""
    dimensions: int = 256
    """Principal components kept, at most the model's 384."""
    sif_coefficient: float = 1e-4
    """Probability at which a token's weight has fallen to a half."""
    num_pieces: int = 4
    """The vocabulary is run through the model in this many pieces, each committed on its own."""

    def __post_init__(self) -> None:
        check_number(self, "dimensions", low=1, high=384)
        check_number(self, "sif_coefficient", above=0)
        check_number(self, "num_pieces", low=1)


@dataclass(frozen=True, kw_only=True)
class StaticTableResult:
    vocabulary: int
    """Tokens, the rows of the table."""
    dimensions: int
    """Columns of the table."""
    explained_variance: float
    """Part of the token vectors' variance that the kept components hold."""
    seconds: Annotated[float, measured]
    """Wall time."""


@dataclass(frozen=True, kw_only=True)
class TokenRange:
    """A piece of the vocabulary."""

    model: str
    piece: int
    """Which piece."""
    num_pieces: int
    """Of how many."""


def distil_piece(item: TokenRange, shard: ShardOut) -> str:
    """Runs one piece of the vocabulary through the model; returns its file's path in the output."""
    from steps.embed.minilm import embed_tokens, load_weights
    from steps.embed.minilm_files import load_tokenizer, model_directory

    directory = model_directory(item.model)
    weights, tokenizer = load_weights(directory), load_tokenizer(directory, 512)
    tokens = np.array_split(np.arange(weights["words"].shape[0]), item.num_pieces)[item.piece]
    opening, closing = tokenizer.token_to_id(_CLS), tokenizer.token_to_id(_SEP)
    vectors = embed_tokens([[opening, int(token), closing] for token in tokens], weights, 3)
    relative = f"pieces/piece-{item.piece:02d}.npy"
    write_array(shard.file(relative), vectors.astype(np.float16))
    return relative


@kind("embed/static_table", version=1)
def static_table(config: StaticTableConfig, out: Out) -> StaticTableResult:
    """Writes `table.npy`, float16[vocabulary, dimensions].

    Raises:
        ConfigError: the model is not installed.
        IdentityMismatch: another version of the model is installed.
    """
    from steps.embed.static import principal_components, token_weights

    started = time.monotonic()
    items = {
        f"piece-{piece:02d}": TokenRange(model=config.model, piece=piece, num_pieces=config.num_pieces)
        for piece in range(config.num_pieces)
    }
    pieces = out.map_shards(distil_piece, items)
    vectors = np.concatenate([read_array(f"{out.path}/{piece}") for piece in pieces.values()]).astype(np.float64)
    components = principal_components(vectors, config.dimensions)
    weights = token_weights(len(vectors), config.sif_coefficient)
    write_array(out.file("table.npy"), (components * weights[:, None]).astype(np.float16))
    return StaticTableResult(
        vocabulary=len(vectors),
        dimensions=config.dimensions,
        explained_variance=round(float(components.var(axis=0).sum() / vectors.var(axis=0).sum()), 6),
        seconds=time.monotonic() - started,
    )
