"""Seeded choices of documents: the ones with the lowest ranks are taken, so a choice depends on ids and seed alone.

Two hashes do the same. The quality labels that come with the package were drawn by the one, the held-out documents that
measured losses stand on by the other; neither choice may move.
"""

import xxhash


def choice_rank(seed: int, identifier: str) -> int:
    """Returns the rank, 0 to 2^64 - 1, by which held-out documents and samples to be read are chosen."""
    return xxhash.xxh3_64_intdigest(identifier.encode(), seed=seed)


def draw_rank(seed: int, identifier: str) -> int:
    """Returns the rank, 0 to 2^64 - 1, by which excerpts for labels, folds and training samples are drawn."""
    return xxhash.xxh3_64_intdigest(f"{seed}:{identifier}".encode())
