"""Documents that share a band become one candidate cluster: a sort per band, and a union-find over all of them.

A cluster is where to look for duplicates, never a judgement: similarity isn't transitive, and chains of it have joined
whole corpora elsewhere. `verify` judges. Memory: 8 bytes a document for the parents, 24 for the band in hand.
"""

from collections.abc import Iterable

import numba
import numpy as np


@numba.njit(cache=True)
def _find(parents, node):
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


@numba.njit(cache=True)
def _unite(parents, left, right):
    for i in range(left.size):
        a = _find(parents, left[i])
        b = _find(parents, right[i])
        # The lesser root wins, so that a cluster's label doesn't depend on the order of its links.
        if a < b:
            parents[b] = a
        elif b < a:
            parents[a] = b


@numba.njit(cache=True)
def _roots(parents):
    for node in range(parents.size):
        parents[node] = _find(parents, node)


def band_links(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64 arrays (first, other): each node of a bucket with two or more, tied to that bucket's least node."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeats = np.zeros(len(order), dtype=bool)
    repeats[1:] = ordered[1:] == ordered[:-1]
    starts = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(order))))
    return order[starts[repeats]], order[repeats]


def cluster_labels(num_nodes: int, bands: Iterable[np.ndarray]) -> tuple[np.ndarray, int]:
    """Returns for each node the least node of its cluster, and how many distinct links joined them.

    Args:
        num_nodes: N.
        bands: uint64[N] arrays, one a band; taken one at a time.

    Returns:
        int64[N] labels (a node alone has its own number), and the number of distinct pairs of a bucket's least node
        and another node of it.
    """
    parents = np.arange(num_nodes, dtype=np.int64)
    links = np.empty(0, dtype=np.int64)
    for hashes in bands:
        first, other = band_links(hashes)
        _unite(parents, first, other)
        links = np.union1d(links, first * num_nodes + other)
    _roots(parents)
    return parents, len(links)
