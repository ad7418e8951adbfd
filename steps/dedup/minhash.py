"""MinHash signatures and their bands.

A signature holds, for each of bands x rows hash functions, the least value over a document's shingles; two documents
agree in one value with the probability of their shingles' Jaccard similarity (Broder, 1997). Documents that agree in
all rows of any band become candidates, which at similarity J happens with probability 1 - (1 - J^rows)^bands.

The functions are multiply-shift, (a * x + b mod 2^64) >> 32, with a 32-bit x, the width for which the family is
strongly universal (Dietzfelbinger, 1996). Coefficients come from splitmix64 and not from a library's generator, whose
stream may change with a version. A golden vector in the tests holds all this fixed.

Cost: 286 functions x one multiplication per word, 0.2 ns each.
"""

import numba
import numpy as np

from steps.dedup.words import Hashes
from steps.splitmix import GOLDEN_GAMMA, finalise

_MASK = (1 << 64) - 1


def coefficients(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns multipliers and offsets, uint64[count] each, of the hash functions: a pure function of its arguments."""
    steps = np.arange(1, 2 * count + 1, dtype=np.uint64)
    values = finalise(np.uint64(seed & _MASK) + steps * GOLDEN_GAMMA)
    return values[0::2].copy(), values[1::2].copy()


@numba.njit(cache=True)
def _minimise(shingles, starts, ends, multipliers, offsets, minima):
    for row in range(starts.size):
        values = (shingles[starts[row] : ends[row]] >> np.uint64(32)).astype(np.uint32)
        for k in range(multipliers.size):
            # Halves of the multiplier, each with a product that the processor has for several values at once.
            low, high = multipliers[k] & np.uint64(0xFFFFFFFF), np.uint32(multipliers[k] >> np.uint64(32))
            least = np.uint32(0xFFFFFFFF)
            for x in values:
                carried = np.uint32((low * np.uint64(x) + offsets[k]) >> np.uint64(32))
                least = min(least, np.uint32(carried + np.uint32(high * x)))
            minima[row, k] = least


def signatures(shingles: Hashes, multipliers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns uint32[D, K], the least value of each hash function over the shingles of each text.

    Args:
        shingles: of D texts, at least one of each (one without words has no signature: two of them would be alike).
        multipliers: uint64[K].
        offsets: uint64[K].

    Raises:
        ValueError: a text has no shingle.
    """
    if not np.all(shingles.counts > 0):
        raise ValueError("a signature needs at least one shingle, got none; leave documents without words out")
    minima = np.empty((len(shingles.starts), multipliers.size), dtype=np.uint32)
    _minimise(*shingles, multipliers, offsets, minima)
    return minima


def band_hashes(signatures: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """Returns uint64[D, bands]: one hash of the `rows` values of each band, of signatures uint32[D, bands * rows]."""
    values = signatures.reshape(len(signatures), bands, rows).astype(np.uint64)
    hashes = np.full(values.shape[:2], rows, dtype=np.uint64)
    for row in range(rows):
        hashes = finalise(hashes * GOLDEN_GAMMA ^ values[:, :, row])
    return hashes
