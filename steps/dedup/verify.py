"""Judges one candidate cluster: whose text is, nearly whole, in a kept document that comes before it.

Members are taken in the order given, by which a survivor is chosen (longest first, or by source). Each is compared with
those kept so far by containment, the share of its distinct word n-grams that the kept one holds; at the threshold or above
it is removed, else it is kept and represents those after it. So the first is always kept, nothing is removed on a chain
of resemblances, and every removal names its evidence. Containment and not Jaccard similarity decides: of two pages that
each hold text the other lacks, both stay. Members that are exempt are kept whatever they are held by.

Small clusters compare all pairs. Above `ALL_PAIRS_MEMBERS` an index of the kept narrows the comparisons: to hold h of a
member's n n-grams, a document must hold at least one of any n - h + 1 of them, so looking up that many of the rarest finds
every document that could reach the threshold (the prefix filter of set-similarity joins: Chaudhuri et al., 2006). Of those
found, the `MOST_CANDIDATES` that share most of them are compared, and an n-gram leads to its last `LONGEST_POSTING` kept
documents, so that a cluster of a million takes time in proportion. Where a bound was met a removal may be missed, never
made; such members are counted. Memory: 40 bytes an n-gram and member while a large cluster is judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

ALL_PAIRS_MEMBERS = 256
"""Largest cluster of which all pairs are compared. Changes the time taken only, so it isn't identity."""
MOST_CANDIDATES = 256
LONGEST_POSTING = 4_096


@dataclass(frozen=True)
class Comparison:
    """A member of a cluster beside the kept one that holds most of it. Members are numbered in the order given."""

    member: int
    kept: int
    containment: float
    """Share of the member's distinct n-grams that the kept document holds."""
    jaccard: float
    """Jaccard similarity of the two sets of n-grams."""
    removed: bool


@dataclass(frozen=True)
class Judgement:
    """What became of one cluster."""

    comparisons: list[Comparison]
    """Of each member that shares an n-gram with one kept before it; a member that stays in a cluster above
    `ALL_PAIRS_MEMBERS` is compared with those only that might have held it. In order of members."""
    num_exempt: int
    """Members that stay because they are exempt."""
    num_bounded: int
    """Members that stay, and were not compared with all that might have held them."""


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


@numba.njit(cache=True)
def _best(values, bounds, member, candidates):
    """Returns (hits, candidate) of the candidate that shares most with the member, the earliest of several; (0, -1) if
    none shares anything."""
    own = values[bounds[member] : bounds[member + 1]]
    best_hits, best = 0, -1
    for other in candidates:
        hits = _overlap(own, values[bounds[other] : bounds[other + 1]])
        if hits > best_hits:
            best_hits, best = hits, other
    return best_hits, best


def needed_hits(size: int, containment: float) -> int:
    """Returns the least number of shared n-grams, of `size`, that is at or above the threshold."""
    hits = max(0, int(containment * size) - 1)
    while hits / size < containment:  # the comparison the threshold stands for; a rounded product may be one off
        hits += 1
    return hits


@numba.njit(cache=True)
def _add_to_postings(rows, first_place, member, lasts, before, owners):
    for offset in range(rows.size):
        place = first_place + offset
        owners[place] = member
        before[place] = lasts[rows[offset]]
        lasts[rows[offset]] = place


@numba.njit(cache=True)
def _count_hits(rows, lasts, before, owners, longest, hits, found):
    """Counts how many of these n-grams each kept member has; returns how many members, and whether a bound was met."""
    num_found = 0
    is_cut = False
    for row in rows:
        place = lasts[row]
        steps = 0
        while place >= 0:
            if steps == longest:
                is_cut = True
                break
            if hits[owners[place]] == 0:
                found[num_found] = owners[place]
                num_found += 1
            hits[owners[place]] += 1
            place = before[place]
            steps += 1
    return num_found, is_cut


class _KeptIndex:
    """Which kept members have an n-gram: the rarest n-grams of a member find those that may hold it."""

    def __init__(self, values: np.ndarray, bounds: np.ndarray):
        distinct, rows, counts = np.unique(values, return_inverse=True, return_counts=True)
        self._rows, self._bounds, self._counts = rows, bounds, counts
        self._lasts = np.full(distinct.size, -1, dtype=np.int64)
        self._before = np.empty(values.size, dtype=np.int64)
        self._owners = np.empty(values.size, dtype=np.int64)
        self._hits = np.zeros(len(bounds) - 1, dtype=np.int64)
        self._found = np.empty(len(bounds) - 1, dtype=np.int64)

    def keep(self, member: int) -> None:
        own = self._rows[self._bounds[member] : self._bounds[member + 1]]
        _add_to_postings(own, self._bounds[member], member, self._lasts, self._before, self._owners)

    def candidates(self, member: int, num_probes: int) -> tuple[np.ndarray, bool]:
        """Returns the kept members, in order, that have any of the `num_probes` rarest n-grams of the member, and
        whether some are left out."""
        rows = self._rows[self._bounds[member] : self._bounds[member + 1]]
        rows = rows[np.argsort(self._counts[rows], kind="stable")[:num_probes]]
        rows = rows[self._counts[rows] > 1]  # an n-gram of this member alone leads nowhere, but did use up a probe
        num_found, is_cut = _count_hits(
            rows, self._lasts, self._before, self._owners, LONGEST_POSTING, self._hits, self._found
        )
        found = np.sort(self._found[:num_found])
        order = np.argsort(-self._hits[found], kind="stable")[:MOST_CANDIDATES]
        self._hits[found] = 0
        return np.sort(found[order]), is_cut or num_found > MOST_CANDIDATES


def judge_cluster(
    grams: Sequence[np.ndarray],
    containment: float,
    *,
    num_standing: int = 0,
    exempt: np.ndarray | None = None,
    all_pairs_members: int = ALL_PAIRS_MEMBERS,
) -> Judgement:
    """Returns who of one cluster is removed, and what everyone was compared with.

    Args:
        grams: each member's distinct n-gram hashes, sorted uint64[n >= 1]; members in order of precedence.
        containment: threshold in (0, 1].
        num_standing: so many of the first members were kept earlier: they stay, and are compared with nobody.
        exempt: bool[members], those that stay whoever holds them; None for none.
        all_pairs_members: largest cluster that is compared without the index.
    """
    values = np.concatenate(grams)
    bounds = np.concatenate(([0], np.cumsum([each.size for each in grams])))
    index = _KeptIndex(values, bounds) if len(grams) > all_pairs_members else None
    kept = np.empty(len(grams), dtype=np.int64)
    num_kept = num_exempt = num_bounded = 0
    comparisons = []
    for member, own in enumerate(grams):
        removed = is_bounded = False
        if member >= num_standing:
            needed = needed_hits(own.size, containment)
            if index is None:
                candidates = kept[:num_kept]
            else:
                candidates, is_bounded = index.candidates(member, own.size - needed + 1)
            hits, best = _best(values, bounds, member, candidates)
            num_bounded += is_bounded and hits < needed
            if best >= 0:
                held = hits >= needed
                removed = held and not (exempt is not None and exempt[member])
                num_exempt += held and not removed
                union = own.size + grams[best].size - hits
                comparisons.append(Comparison(member, int(best), hits / own.size, hits / union, bool(removed)))
        if not removed:
            kept[num_kept] = member
            num_kept += 1
            if index is not None:
                index.keep(member)
    return Judgement(comparisons, int(num_exempt), int(num_bounded))
