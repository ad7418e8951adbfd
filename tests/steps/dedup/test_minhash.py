"""Signatures against plain-integer arithmetic, datasketch, and what theory says of the estimate."""

import datasketch
import numpy as np
import pyarrow as pa
import pytest

from steps.dedup.fuzzy import candidate_chance, curve_warnings
from steps.dedup.minhash import band_hashes, coefficients, signatures
from steps.dedup.words import Hashes, ngram_hashes, word_hashes

# Of the text in the test below; they change only together with the version of dedup/fuzzy.
GOLDEN_VALUES = [420373034, 291357678, 3162652, 97609202, 67353289, 273770554, 520606378, 139025977]
GOLDEN_BANDS = [9945619927580552466, 1458584650708731921, 16245136182861530039, 4976316038445106651]


def random_hashes(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def signature(shingles: np.ndarray, multipliers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    [values] = signatures(Hashes(shingles, np.array([0]), np.array([shingles.size])), multipliers, offsets)
    return values


def pair_with_jaccard(seed: int, shared: int, apart: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sets with `shared` common members and `apart` own ones each: Jaccard shared / (shared + 2 apart)."""
    values = random_hashes(seed, shared + 2 * apart)
    return values[: shared + apart], np.concatenate((values[:shared], values[shared + apart :]))


def test_signature_of_a_fixed_text_is_the_golden_one():
    text = pa.array(["The golden signature of this sentence, 中文 too, must never change."])
    [values] = signatures(ngram_hashes(word_hashes(text), 5), *coefficients(42, 286))
    assert values[:8].tolist() == GOLDEN_VALUES
    assert band_hashes(values[None], 26, 11)[0, :4].tolist() == GOLDEN_BANDS


def test_signature_equals_plain_integer_arithmetic():
    shingles = random_hashes(1, 40)
    multipliers, offsets = coefficients(7, 30)
    expected = [
        min(((int(a) * (int(x) >> 32) + int(b)) % 2**64) >> 32 for x in shingles)
        for a, b in zip(multipliers, offsets, strict=True)
    ]
    assert signature(shingles, multipliers, offsets).tolist() == expected


def test_signature_does_not_depend_on_order_or_repeats():
    shingles = random_hashes(2, 100)
    functions = coefficients(42, 64)
    again = np.concatenate((shingles[::-1], shingles[:30]))
    assert signature(again, *functions).tolist() == signature(shingles, *functions).tolist()


def test_signature_of_no_shingles_is_refused():
    with pytest.raises(ValueError, match="at least one shingle"):
        signature(np.empty(0, np.uint64), *coefficients(42, 8))


@pytest.mark.parametrize(("shared", "apart"), [(20, 90), (100, 50), (100, 12)])
def test_estimate_is_unbiased_with_binomial_variance(shared, apart):
    jaccard = shared / (shared + 2 * apart)
    num_functions, num_pairs = 128, 400
    functions = coefficients(3, num_functions)
    estimates = []
    for seed in range(num_pairs):
        one, other = pair_with_jaccard(seed, shared, apart)
        estimates.append(float(np.mean(signature(one, *functions) == signature(other, *functions))))
    variance = jaccard * (1 - jaccard) / num_functions
    # Five standard errors of the mean of 400 estimates; the variance's own is sqrt(2 / 400) = 7 %.
    assert abs(np.mean(estimates) - jaccard) < 5 * np.sqrt(variance / num_pairs)
    assert 0.65 * variance < np.var(estimates) < 1.35 * variance


def test_estimate_agrees_with_datasketch():
    functions = coefficients(42, 512)
    ours, theirs, truth = [], [], []
    for seed in range(60):
        one, other = pair_with_jaccard(seed, 10 + 4 * seed, 60)
        truth.append((10 + 4 * seed) / (130 + 4 * seed))
        ours.append(float(np.mean(signature(one, *functions) == signature(other, *functions))))
        sketches = [datasketch.MinHash(num_perm=512, seed=1) for _ in range(2)]
        for sketch, members in zip(sketches, (one, other), strict=True):
            sketch.update_batch([member.tobytes() for member in members])
        theirs.append(sketches[0].jaccard(sketches[1]))
    # Both stray from the truth by about sqrt(.25 / 512) = .022 a pair: neither may stray much more than the other.
    our_error = float(np.sqrt(np.mean(np.subtract(ours, truth) ** 2)))
    their_error = float(np.sqrt(np.mean(np.subtract(theirs, truth) ** 2)))
    assert our_error < 0.03 and our_error < 1.5 * their_error
    assert np.corrcoef(ours, theirs)[0, 1] > 0.97


def test_bands_share_a_hash_when_their_rows_agree_only():
    values = np.arange(24, dtype=np.uint32).reshape(1, 24)
    other = values.copy()
    other[0, 5] += 1
    one, changed = band_hashes(values, 6, 4)[0], band_hashes(other, 6, 4)[0]
    assert (one == changed).tolist() == [True, False, True, True, True, True]
    assert len(set(one.tolist())) == 6


def test_bands_are_found_as_often_as_the_curve_says():
    bands, rows, num_pairs = 26, 11, 600
    functions = coefficients(42, bands * rows)
    for shared, apart in [(60, 15), (80, 10)]:
        found = 0
        for seed in range(num_pairs):
            both = np.stack([signature(each, *functions) for each in pair_with_jaccard(seed, shared, apart)])
            hashes = band_hashes(both, bands, rows)
            found += bool((hashes[0] == hashes[1]).any())
        chance = candidate_chance(shared / (shared + 2 * apart), bands, rows)
        assert abs(found / num_pairs - chance) < 5 * np.sqrt(chance * (1 - chance) / num_pairs)


def test_coefficients_follow_the_seed_and_extend_each_other():
    assert coefficients(42, 8)[0].tolist() == coefficients(42, 286)[0][:8].tolist()
    assert coefficients(42, 8)[0].tolist() != coefficients(43, 8)[0].tolist()
    assert len(set(coefficients(42, 286)[0].tolist())) == 286


@pytest.mark.parametrize(
    ("jaccard", "chance"), [(0.5, 0.013), (0.6, 0.090), (0.7, 0.405), (0.8, 0.903), (0.9, 1.0), (1.0, 1.0)]
)
def test_curve_of_26_bands_of_11_rows_has_the_published_values(jaccard, chance):
    assert candidate_chance(jaccard, 26, 11) == pytest.approx(chance, abs=5e-4)


def test_curve_of_swapped_bands_and_rows_warns():
    assert curve_warnings(26, 11) == []
    [warning] = curve_warnings(11, 26)
    assert "bands=11 and rows=26" in warning and "swapped" in warning
