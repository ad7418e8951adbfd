"""A keyed pseudo-random permutation of range(n), computed point by point: shuffling without a table.

A Feistel network on the smallest power of two that holds n, walked until it lands inside. Linear congruential
permutations, the usual short cut, keep neighbours at a constant distance and shuffled a published run badly; a
Feistel network does not. All arithmetic is on uint64 with a fixed mixer, so a value here is the same on every
machine and NumPy version.
"""

import hashlib

import numpy as np

from steps.splitmix import GOLDEN_GAMMA, finalise

_ROUNDS = 8


def key_of(*parts: str | int) -> int:
    """Returns a 64-bit key for a purpose, e.g. `key_of(seed, "epoch", cell)`: by name, never by position in a list."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def mix(values: np.ndarray) -> np.ndarray:
    """Returns a 64-bit mix of uint64 values, SplitMix64's next value from each: 0 is not left where it is."""
    return finalise(values + GOLDEN_GAMMA)


def permute(positions: np.ndarray, sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Returns where each position goes under the permutation of range(size) that belongs to its key.

    Args:
        positions: int64[K], each in range(size).
        sizes: int64[K], the size of each position's own domain, at least 1.
        keys: uint64[K]; equal size and key is the same permutation.

    Returns:
        int64[K], each in range(size).
    """
    if len(positions) == 0:
        return np.zeros(0, dtype=np.int64)
    if np.any(positions < 0) or np.any(positions >= sizes):
        raise IndexError("a position lies outside range(size)")
    bits = np.maximum(2, np.ceil(np.log2(np.maximum(sizes, 2)))).astype(np.uint64)
    bits += (np.uint64(1) << bits) < sizes.astype(np.uint64)  # log2 in floating point may fall just short
    left_bits = bits >> np.uint64(1)
    out = positions.astype(np.uint64)
    limit = sizes.astype(np.uint64)
    walking = np.arange(len(positions))
    while walking.size:  # each pass ends for at least half of the domain, so this ends soon and always
        out[walking] = _network(out[walking], left_bits[walking], bits[walking] - left_bits[walking], keys[walking])
        walking = walking[out[walking] >= limit[walking]]
    return out.astype(np.int64)


def _network(values: np.ndarray, left_bits: np.ndarray, right_bits: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """One pass of an unbalanced Feistel network: the halves change places, and widths, each round."""
    one = np.uint64(1)
    for each in range(_ROUNDS):
        left, right = values >> right_bits, values & ((one << right_bits) - one)
        noise = mix(right ^ mix(keys + np.uint64(each)))
        left = left ^ (noise & ((one << left_bits) - one))
        values = (right << left_bits) | left
        left_bits, right_bits = right_bits, left_bits
    return values
