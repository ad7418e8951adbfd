import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.mix.permutation import key_of, permute


def whole(size: int, key: int) -> np.ndarray:
    return permute(np.arange(size), np.full(size, size), np.full(size, key, dtype=np.uint64))


@given(size=st.integers(1, 700), key=st.integers(0, 2**64 - 1))
@settings(max_examples=80)
def test_permute_any_size_and_key_is_a_bijection(size, key):
    assert sorted(whole(size, key).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1])
def test_permute_around_powers_of_two_is_a_bijection(size):
    assert np.array_equal(np.sort(whole(size, 7)), np.arange(size))


def test_permute_huge_size_stays_in_range():
    size = 2**53 + 1
    positions = np.array([0, 1, size - 1])
    moved = permute(positions, np.full(3, size), np.full(3, 5, dtype=np.uint64))
    assert len(set(moved.tolist())) == 3 and moved.min() >= 0 and moved.max() < size


def test_permute_mixed_sizes_equals_each_alone():
    sizes, keys = np.array([5, 100, 3, 64, 1]), np.array([1, 2, 3, 4, 5], dtype=np.uint64)
    positions = np.array([4, 17, 0, 63, 0])
    alone = [int(permute(positions[i : i + 1], sizes[i : i + 1], keys[i : i + 1])[0]) for i in range(5)]
    assert permute(positions, sizes, keys).tolist() == alone


def test_permute_position_outside_is_refused():
    with pytest.raises(IndexError):
        permute(np.array([5]), np.array([5]), np.array([0], dtype=np.uint64))


def test_permute_known_values_never_change():
    # Written down once: a change here changes the order of every run, so it needs a new version of the kinds that use it.
    assert whole(10, 1).tolist() == GOLDEN_10
    assert key_of(1, "component", "c00q0") == GOLDEN_KEY


def test_permute_neighbours_land_far_apart_without_a_pattern():
    """A linear congruential permutation has one constant distance between images of neighbours; a good one has many."""
    size = 4096
    for key in range(5):
        image = whole(size, key)
        distances = np.diff(image) % size
        assert len(np.unique(distances)) > 0.55 * size  # 1 - 1/e = 0.63 of all for a random permutation
        assert abs(np.abs(np.diff(image)).mean() / size - 1 / 3) < 0.02
        assert abs(np.corrcoef(np.arange(size), image)[0, 1]) < 0.06
        for window in (image[:64], image[2000:2064]):  # a batch's worth reaches over the whole
            assert np.histogram(window, bins=4, range=(0, size))[0].min() >= 5


def seen_together(image: np.ndarray, batch: int) -> float:
    """Pairs that lie within 64 of each other before the shuffle and in one batch after it, over what chance gives."""
    batches = np.empty(len(image), dtype=int)
    batches[image] = np.arange(len(image)) // batch  # batches[item]: where the item that stood there is shown
    distances = range(1, 65)
    together = np.mean([np.mean(batches[d:] == batches[:-d]) for d in distances])
    return together * len(image) / batch


def test_permute_scatters_neighbours_where_a_linear_congruential_one_keeps_them_together():
    """Documents of one file lie side by side: a shuffle that keeps them near each other makes batches of one topic.

    A step of 2 ** 12 + 1 over 2 ** 18 is a full-period linear congruential permutation, in which the item 64 places on
    comes 64 places on.
    """
    size, batch = 2**18, 256
    linear = (np.arange(size) * (2**12 + 1) + 12_345) % size
    assert len(np.unique(linear)) == size
    assert seen_together(linear, batch) > 10
    for key in range(3):
        assert seen_together(whole(size, key), batch) < 1.5


def test_permute_cycle_walking_keeps_the_distribution_even():
    """Positions of item 0 over 6,000 keys are uniform over 6 places: chi-square with 5 degrees of freedom."""
    keys = np.arange(6000, dtype=np.uint64)
    counts = np.bincount(permute(np.zeros(6000, int), np.full(6000, 6), keys), minlength=6)
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5  # p = 0.001


def test_key_of_parts_do_not_run_together():
    assert len({key_of("a", "bc"), key_of("ab", "c"), key_of("abc"), key_of(1), key_of("1"), key_of(1, 1)}) == 6


GOLDEN_10 = [7, 6, 2, 5, 3, 9, 0, 1, 8, 4]
GOLDEN_KEY = 12397107425432413235
