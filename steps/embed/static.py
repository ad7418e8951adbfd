"""Documents to vectors through a table of one vector a token: fast, and blind to word order.

The table comes from the step kind "embed/static_table", which runs every token of MiniLM's vocabulary through the model
on its own. A document's vector is the mean of its tokens' vectors, scaled to unit length.
"""

import functools
from pathlib import Path

import numpy as np

from steps.embed.minilm_files import load_tokenizer, tokenize
from steps.embed.vectors import read_array


def token_weights(vocabulary_size: int, sif_coefficient: float) -> np.ndarray:
    """Returns float64[V]: how much each token counts, small for common ones (smooth inverse frequency).

    WordPiece vocabularies are listed by falling frequency, so a token's probability is taken from Zipf's law by its
    place (the approximation used by the model2vec package); no corpus is needed and the table fits every corpus.
    """
    inverse_rank = 1.0 / (np.arange(vocabulary_size) + 2.0)
    return sif_coefficient / (sif_coefficient + inverse_rank / inverse_rank.sum())


def principal_components(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """Returns the centred rows projected on the first principal components, signs fixed.

    Args:
        vectors: float[n, m].
        dimensions: d <= m.

    Returns:
        float64[n, d].
    """
    from threadpoolctl import threadpool_limits

    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    with threadpool_limits(limits=1):  # with more BLAS threads sums are added up in another order
        _, basis = np.linalg.eigh(centred.T @ centred)
        basis = basis[:, ::-1][:, :dimensions]
        # An eigenvector's sign is arbitrary and differs between LAPACK builds: its largest entry is made positive.
        largest = basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])]
        return centred @ (basis * np.sign(largest))


@functools.lru_cache(maxsize=2)
def load_table(path: str) -> np.ndarray:
    """Returns the token table at `path`/table.npy as float32[V, d]."""
    return read_array(f"{path.rstrip('/')}/table.npy").astype(np.float32)


def embed_texts(texts: list[str], table: np.ndarray, directory: Path, max_tokens: int) -> np.ndarray:
    """Returns one unit vector a text, the mean over its first `max_tokens` tokens.

    Args:
        texts: any strings; one without tokens (zero-width characters only, say) counts as one unknown token.
        table: float32[V, d].
        directory: of the model whose tokenizer the table was made with.
        max_tokens: tokens kept of each text.

    Returns:
        float32[n, d].
    """
    unknown = load_tokenizer(directory, max_tokens).token_to_id("[UNK]")
    vectors = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
    for row, token_ids in enumerate(tokenize(texts, directory, max_tokens, special=False)):
        mean = table[token_ids or [unknown]].mean(axis=0, dtype=np.float64)
        vectors[row] = mean / max(np.linalg.norm(mean), 1e-12)
    return vectors
