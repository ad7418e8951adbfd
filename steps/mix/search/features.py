"""What a surrogate knows of a mixture: square roots of shares, of cells, of topics and of quality buckets.

Between two mixtures, the Euclidean distance of square roots of shares is the Hellinger distance (times sqrt 2): a small
cell that doubles counts like a large one that grows by the same information. Shares of topics and buckets are there
because cells of one topic, and cells of one quality, do alike; from few runs no cell could be learnt alone.
"""

import re
from collections.abc import Sequence

import numpy as np

from steps.mix.mixture import Mixture
from steps.tokenize.store import TokenIndex

_CELL = re.compile(r"(c\d+)(q\d+)")


def cell_shares(mixture: Mixture, index: TokenIndex) -> np.ndarray:
    """Returns the share of each cell in what a phase draws, on the block's lattice: float64[P, C], rows sum to 1.

    A component of several cells is split by their tokens, which is how its sequences fall.
    """
    place = {cell.name: i for i, cell in enumerate(index.cells)}
    shares = np.zeros((len(mixture.phase_starts), len(index.cells)))
    for component in mixture.components:
        members = [place[name] for name in component.cells]
        tokens = np.array([index.cells[i].tokens for i in members], dtype=np.float64)
        counts = np.array(component.counts) / mixture.block_sequences
        shares[:, members] = counts[:, None] * tokens / tokens.sum()
    return shares


def mixture_features(shares: np.ndarray, cells: Sequence[str]) -> np.ndarray:
    """Returns the features of N mixtures: float64[N, D].

    Args:
        shares: float64[N, P, C].
        cells: C names. Where all are `cNNqQ`, shares of topics and of quality buckets are features too.
    """
    groups = [np.eye(len(cells))]
    matches = [_CELL.fullmatch(cell) for cell in cells]
    if all(matches):
        groups += [_membership([match[part] for match in matches if match]) for part in (1, 2)]
    roots = [np.sqrt(shares @ group) for group in groups]
    return np.concatenate([each.reshape(len(shares), -1) for each in roots], axis=1)


def _membership(labels: Sequence[str]) -> np.ndarray:
    """float64[C, G]: 1 where a cell belongs to a group."""
    names = sorted(set(labels))
    return np.array([[float(label == name) for name in names] for label in labels])
