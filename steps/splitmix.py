"""The 64-bit mixing of SplitMix64 (Steele, Lea and Flood, 2014): what hashes and permutations here are built on.

Written out, and not taken from a library's generator, so that a value is the same on every machine and in every version.
"""

import numpy as np

GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""The generator's increment: its k-th value from a state s is `finalise(s + k * GOLDEN_GAMMA)`."""
FIRST_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
SECOND_MULTIPLIER = np.uint64(0x94D049BB133111EB)


def finalise(values: np.ndarray) -> np.ndarray:
    """Returns uint64 values scattered over all 64 bits: a bijection, which leaves 0 where it is."""
    values = (values ^ (values >> np.uint64(30))) * FIRST_MULTIPLIER
    values = (values ^ (values >> np.uint64(27))) * SECOND_MULTIPLIER
    return values ^ (values >> np.uint64(31))
