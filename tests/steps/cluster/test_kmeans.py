import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.cluster.kmeans import assign, centered, cluster_sizes, train_centroids, train_seeds
from steps.cluster.sample import draw_rows, largest_remainder_quotas


def blobs(num_blobs, per_blob, dimensions, noise, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0][:num_blobs]
    points = np.repeat(centres, per_blob, axis=0) + noise * rng.normal(size=(num_blobs * per_blob, dimensions))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32), np.repeat(np.arange(num_blobs), per_blob)


def train(vectors, num_clusters, **changes):
    return train_centroids(vectors, num_clusters, **{"seed": 0, "iterations": 15, "restarts": 3, **changes})


def test_kmeans_finds_well_separated_groups_given_enough_restarts():
    vectors, truth = blobs(8, 30, 16, 0.05)
    found = assign(vectors, train(vectors, 8, restarts=30))
    assert len({(a, b) for a, b in zip(found.tolist(), truth.tolist(), strict=True)}) == 8


def test_kmeans_any_number_of_threads_gives_equal_bytes():
    vectors = np.random.default_rng(3).normal(size=(12_000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    one, two, five = (train(vectors, 300, num_threads=threads, iterations=4) for threads in (1, 2, 5))
    assert one.tobytes() == two.tobytes() == five.tobytes()


def test_kmeans_restarts_are_those_of_faiss():
    vectors, _ = blobs(6, 50, 12, 0.6)
    shuffled = np.ascontiguousarray(np.unique(vectors, axis=0)[np.random.default_rng(5).permutation(len(vectors))])
    settings = {"niter": 15, "nredo": 4, "seed": 5, "spherical": True, "min_points_per_centroid": 1}
    faiss.omp_set_num_threads(1)
    kmeans = faiss.Kmeans(12, 9, max_points_per_centroid=len(vectors), **settings)
    kmeans.train(shuffled)
    np.testing.assert_allclose(train(vectors, 9, seed=5, restarts=4), kmeans.centroids, atol=1e-6)


def test_kmeans_several_seeds_at_once_are_each_as_alone():
    vectors, _ = blobs(5, 40, 12, 0.5)
    together = train_seeds(vectors, 7, seeds=[3, 1], iterations=15, restarts=2, num_threads=3)
    for seed, centroids in zip((3, 1), together, strict=True):
        assert centroids.tobytes() == train(vectors, 7, seed=seed, restarts=2).tobytes()


@pytest.mark.parametrize("seed", [2**31 - 1, 2**31, 10**30])
def test_kmeans_any_seed_will_do(seed):
    """faiss takes 31 bits of it, and each restart adds to it."""
    vectors, _ = blobs(3, 10, 8, 0.5)
    assert train(vectors, 3, seed=seed).shape == (3, 8)


def test_assign_blocks_of_rows_change_nothing(monkeypatch):
    vectors, _ = blobs(5, 40, 12, 0.5)
    centroids = train(vectors, 7)
    expected = np.argmax(vectors.astype(np.float64) @ centroids.T.astype(np.float64), axis=1)
    np.testing.assert_array_equal(assign(vectors, centroids), expected)
    monkeypatch.setattr("steps.cluster.kmeans._ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(assign(vectors, centroids), expected)


def test_kmeans_same_seed_same_centroids_other_seed_others():
    vectors, _ = blobs(5, 40, 12, 0.5)
    assert train(vectors, 7).tobytes() == train(vectors, 7).tobytes()
    assert train(vectors, 7).tobytes() != train(vectors, 7, seed=1).tobytes()


def test_kmeans_order_of_rows_does_not_matter():
    vectors, _ = blobs(5, 40, 12, 0.5)
    assert train(vectors, 7).tobytes() == train(vectors[::-1].copy(), 7).tobytes()


def test_kmeans_a_thousand_copies_of_one_vector_take_one_centroid():
    vectors, truth = blobs(4, 25, 16, 0.05)
    crowded = np.concatenate([vectors, np.repeat(vectors[:1], 1_000, axis=0)])
    found = assign(vectors, train(crowded, 4))
    assert len({(a, b) for a, b in zip(found.tolist(), truth.tolist(), strict=True)}) == 4


def test_kmeans_fewer_distinct_vectors_than_clusters_is_refused():
    vectors = np.repeat(np.eye(3, dtype=np.float32), 100, axis=0)
    with pytest.raises(ConfigError, match="3 distinct vectors"):
        train(vectors, 4)


def test_kmeans_nan_is_refused():
    vectors, _ = blobs(2, 10, 4, 0.1)
    vectors[3, 1] = np.nan
    with pytest.raises(StepFailed, match="not finite"):
        train(vectors, 2)


def test_cluster_sizes_empty_cluster_is_an_error():
    np.testing.assert_array_equal(cluster_sizes(np.array([0, 2, 1, 2]), 3), [1, 1, 2])
    with pytest.raises(StepFailed, match=r"1 of 4 clusters are empty, the first is 3"):
        cluster_sizes(np.array([0, 2, 1, 2]), 4)


def test_centered_vectors_have_unit_length_and_an_exact_mean_becomes_zero():
    vectors, _ = blobs(3, 10, 6, 0.3)
    mean = vectors.mean(axis=0)
    np.testing.assert_allclose(np.linalg.norm(centered(vectors, mean), axis=1), 1, atol=1e-5)
    assert not np.isnan(centered(mean[None], mean)).any()
    np.testing.assert_allclose(centered(vectors, np.zeros(6, dtype=np.float32)), vectors, atol=1e-6)


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 500), min_size=1, max_size=8), st.data()
)
def test_quotas_sum_to_the_total_and_every_source_is_in(sizes, data):
    total = data.draw(st.integers(len(sizes), 2 * sum(sizes.values())))
    quotas = largest_remainder_quotas(sizes, total)
    available = sum(sizes.values())
    assert sum(quotas.values()) == min(total, available)
    for name, size in sizes.items():
        assert 1 <= quotas[name] <= size
        if total < available and total * size / available >= len(sizes):
            assert abs(quotas[name] - total * size / available) <= len(sizes)
    assert quotas == largest_remainder_quotas(dict(reversed(sizes.items())), total)


def test_quotas_follow_the_largest_remainders():
    assert largest_remainder_quotas({"a": 50, "b": 30, "c": 20}, 7) == {"a": 4, "b": 2, "c": 1}


@given(st.lists(st.integers(0, 10**6), unique=True, min_size=1, max_size=40), st.integers(0, 40), st.integers(0, 99))
def test_draw_is_a_function_of_ids_and_not_of_their_order(numbers, count, seed):
    ids = [f"{number:032x}" for number in numbers]
    chosen = {ids[row] for row in draw_rows(ids, count, seed)}
    backwards = ids[::-1]
    assert chosen == {backwards[row] for row in draw_rows(backwards, count, seed)}
    assert len(chosen) == min(count, len(ids))
