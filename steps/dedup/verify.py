"""Judges one candidate cluster: whose text is, nearly whole, in a kept document that is at least as long.

Members are taken longest first. Each is compared with those kept so far by containment, the share of its distinct word
n-grams that the kept one holds; at the threshold or above it is removed, else it is kept and represents those after
it. So the first is always kept, nothing is removed on a chain of resemblances, and every removal names its evidence.
Containment and not Jaccard similarity decides: of two pages that each hold text the other lacks, both stay.

Small clusters compare all pairs. Above `ALL_PAIRS_MEMBERS` an index narrows the comparisons without changing a result:
to hold h of a member's n n-grams, a document must hold at least one of any n - h + 1 of them, so looking up that many
of the rarest finds every document that could reach the threshold (the prefix filter of set-similarity joins: Chaudhuri
et al., 2006). Memory: 16 bytes an n-gram and member while a large cluster is judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

ALL_PAIRS_MEMBERS = 256
"""Largest cluster of which all pairs are compared. Changes the time taken only, so it isn't identity."""


@dataclass(frozen=True)
class Removal:
    """One removed member of a cluster, with what it rests on. Members are numbered as given: longest first."""

    member: int
    kept: int
    containment: float
    """Share of the member's distinct n-grams that the kept document holds."""
    jaccard: float
    """Jaccard similarity of the two sets of n-grams."""


@numba.njit(cache=True)
def _overlap(left, right):
    """The number of values that two sorted arrays of distinct values share."""
    shared = 0
    i = 0
    j = 0
    while i < left.size and j < right.size:
        if left[i] == right[j]:
            shared += 1
            i += 1
            j += 1
        elif left[i] < right[j]:
            i += 1
        else:
            j += 1
    return shared


def needed_hits(size: int, containment: float) -> int:
    """Returns the least number of shared n-grams, of `size`, that is at or above the threshold."""
    hits = max(0, int(containment * size) - 1)
    while hits / size < containment:  # the comparison the threshold stands for; a rounded product may be one off
        hits += 1
    return hits


class _RarestIndex:
    """Which members have an n-gram, and how many do: the rarest n-grams of a member find those that may hold it."""

    def __init__(self, grams: Sequence[np.ndarray]):
        owners = np.repeat(np.arange(len(grams)), [g.size for g in grams])
        values, positions, counts = np.unique(np.concatenate(grams), return_inverse=True, return_counts=True)
        order = np.argsort(positions, kind="stable")  # by n-gram, then by member
        self._postings = owners[order]
        self._ends = np.cumsum(counts)
        self._counts = counts
        self._values = values
        self._kept = np.zeros(len(grams), dtype=bool)

    def keep(self, member: int) -> None:
        self._kept[member] = True

    def kept_with_any(self, grams: np.ndarray, num_probes: int) -> np.ndarray:
        """Returns the kept members, in order, that have any of the `num_probes` rarest of these n-grams."""
        rows = np.searchsorted(self._values, grams)
        rows = rows[np.argsort(self._counts[rows], kind="stable")[:num_probes]]
        rows = rows[self._counts[rows] > 1]  # an n-gram of this member alone leads nowhere, but did use up a probe
        if rows.size == 0:
            return rows
        found = [self._postings[self._ends[row] - self._counts[row] : self._ends[row]] for row in rows]
        members = np.unique(np.concatenate(found))
        return members[self._kept[members]]


def verify_cluster(
    grams: Sequence[np.ndarray], containment: float, all_pairs_members: int = ALL_PAIRS_MEMBERS
) -> list[Removal]:
    """Returns the removals among one cluster's members, in their order.

    Args:
        grams: each member's distinct n-gram hashes, sorted uint64[n >= 1]; members longest first.
        containment: threshold in (0, 1].
        all_pairs_members: largest cluster that is compared without the index; the result is the same either way.

    Returns:
        For each removed member, the kept one that holds most of it (the earliest such).
    """
    index = _RarestIndex(grams) if len(grams) > all_pairs_members else None
    kept: list[int] = []
    removals = []
    for member, own in enumerate(grams):
        needed = needed_hits(own.size, containment)
        candidates = kept if index is None else index.kept_with_any(own, own.size - needed + 1)
        best_hits, best = 0, -1
        for other in candidates:
            hits = _overlap(own, grams[other])
            if hits > best_hits:
                best_hits, best = hits, int(other)
        if best >= 0 and best_hits >= needed:
            union = own.size + grams[best].size - best_hits
            removals.append(Removal(member, best, best_hits / own.size, best_hits / union))
            continue
        kept.append(member)
        if index is not None:
            index.keep(member)
    return removals
