"""Clusters of shared bands, against a flood fill."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.dedup.candidates import cluster_labels


def flood_fill(num_nodes: int, bands: list[list[int]]) -> list[int]:
    labels = [-1] * num_nodes
    for start in range(num_nodes):
        if labels[start] >= 0:
            continue
        reached = [start]
        labels[start] = start
        while reached:
            node = reached.pop()
            for other in range(num_nodes):
                if labels[other] < 0 and any(band[node] == band[other] for band in bands):
                    labels[other] = start
                    reached.append(other)
    return labels


@settings(max_examples=150)
@given(st.data(), st.integers(1, 25), st.integers(1, 4))
def test_clusters_equal_a_flood_fill(data, num_nodes, num_bands):
    values = st.lists(st.integers(0, 15), min_size=num_nodes, max_size=num_nodes)
    bands = [data.draw(values) for _ in range(num_bands)]
    labels, _ = cluster_labels(num_nodes, [np.array(band, np.uint64) for band in bands])
    assert labels.tolist() == flood_fill(num_nodes, bands)


def test_clusters_do_not_depend_on_the_order_of_bands():
    rng = np.random.default_rng(0)
    bands = [rng.integers(0, 400, 500).astype(np.uint64) for _ in range(3)]
    labels, links = cluster_labels(500, bands)
    again, links_again = cluster_labels(500, bands[::-1])
    assert labels.tolist() == again.tolist() and links == links_again


def test_clusters_of_a_long_chain_are_one():
    # Neighbours share a bucket in one of two bands: 0-1, 2-3, ... and 1-2, 3-4, ...
    count = 100_000
    bands = [(np.arange(count) // 2).astype(np.uint64), ((np.arange(count) + 1) // 2).astype(np.uint64)]
    labels, links = cluster_labels(count, bands)
    assert not labels.any() and links == count - 1


def test_clusters_of_no_documents_are_none():
    labels, links = cluster_labels(0, [np.empty(0, np.uint64)])
    assert labels.size == 0 and links == 0
