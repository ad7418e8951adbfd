"""The index of the features of all benchmarks: exact, and quick to say no.

Sorted 64-bit hashes (160 MB for 20 million) that know which records they come from, so that every removal can be traced
to a benchmark item. A Bloom filter would be 4 times smaller and could say neither. Before the search in them stands a bitmap of
16 bits a feature, by the hash's first bits, which turns away 15 of 16 hashes that no benchmark has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numba
import numpy as np

from marin_exec import StepFailed
from steps.decontaminate.features import batches, bitmap_of, extract_features
from steps.decontaminate.records import Record

_RUN_CHARACTERS = 24
"""Short records of fewer letters and digits are not looked for inside paragraphs: they might be any phrase."""


@dataclass(frozen=True)
class FeatureIndex:
    """The features of all records; U distinct ones, R records."""

    records: tuple[Record, ...]
    hashes: np.ndarray
    """uint64[U], sorted, distinct."""
    starts: np.ndarray
    """int64[U + 1]: the records of feature u are `members[starts[u] : starts[u + 1]]`."""
    members: np.ndarray
    """int64: record numbers, ascending for each feature."""
    features_of_record: np.ndarray
    """int64[R]: how many distinct features each record gave."""
    ngram_words: int
    shortest_words: int
    keeps_frequent: np.ndarray
    """bool[U]: whether one of its records says so."""
    is_run: np.ndarray
    """bool[U]: whether it is all of a short record, to be found inside longer paragraphs too."""
    run_lengths: tuple[int, ...]
    """Words in such records, ascending."""
    bitmap: np.ndarray = field(init=False, repr=False)
    """Of all hashes (see `bitmap_of`)."""
    run_bitmap: np.ndarray = field(init=False, repr=False)
    """Of those that are runs: few, so that it stays in the fastest cache."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bitmap", bitmap_of(self.hashes))
        object.__setattr__(self, "run_bitmap", bitmap_of(self.hashes[self.is_run]))

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """Returns int64: the number of each hash's feature, -1 for those that no benchmark has."""
        return _find(hashes, self.hashes, self.bitmap)

    def excerpts(self, chosen: Sequence[int]) -> list[str]:
        """Returns the folded texts that some features are the hashes of, found again in their first records."""
        by_record: dict[int, list[int]] = {}
        for feature in chosen:
            by_record.setdefault(int(self.members[self.starts[feature]]), []).append(feature)
        texts: dict[int, str] = {}
        for record, members in by_record.items():
            text = self.records[record].text
            features = extract_features([text], self.ngram_words, self.shortest_words, of_records=True)
            place = dict(zip(features.hashes.tolist(), range(len(features.hashes)), strict=True))
            texts |= {feature: features.excerpt(place[int(self.hashes[feature])]) for feature in members}
        return [texts[feature] for feature in chosen]

    def records_of(self, feature: int) -> list[Record]:
        """Returns the records that have the feature."""
        return [self.records[member] for member in self.members[self.starts[feature] : self.starts[feature + 1]]]

    def record_pairs(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[P] twice: places in `features`, and the records of the feature at each, all pairs.

        Args:
            features: int64: feature numbers.
        """
        counts = self.starts[features + 1] - self.starts[features]
        places = np.repeat(np.arange(len(features)), counts)
        inside = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, self.members[self.starts[features][places] + inside]


def build_index(
    records: Sequence[Record], ngram_words: int, shortest_words: int, shortest_run_words: int
) -> FeatureIndex:
    """Returns the index of the features of all records; a feature of several records is attributed to each.

    Args:
        records: texts of all benchmarks.
        ngram_words: n.
        shortest_words: records shorter than this give no feature.
        shortest_run_words: records of so many words, but fewer than n, are looked for inside paragraphs too.
    """
    short = np.array([record.short for record in records], dtype=bool)
    parts = [(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))]
    runs: dict[int, int] = {}
    for first, last in batches([len(record.text) for record in records]):
        texts = [record.text for record in records[first:last]]
        features = extract_features(texts, ngram_words, shortest_words, of_records=True)
        ends = features.firsts + features.lengths - 1
        is_long = features.lengths == ngram_words
        in_paragraph = features.words.paragraphs[features.firsts] == features.words.paragraphs[ends]
        takes_short = short[first:last].copy()
        takes_short[features.texts[is_long & in_paragraph]] = False
        taken = is_long | takes_short[features.texts]
        parts.append((features.hashes[taken], features.texts[taken] + first))
        sizes = np.bincount(features.words.texts, minlength=last - first)
        whole = taken & (features.lengths == sizes[features.texts]) & (features.lengths >= shortest_run_words)
        for number in np.flatnonzero(whole & ~is_long):
            if sum(map(str.isalnum, texts[features.texts[number]])) >= _RUN_CHARACTERS:
                runs[int(features.hashes[number])] = int(features.lengths[number])
    hashes, members = (np.concatenate([part[column] for part in parts]) for column in range(2))
    order = np.argsort(hashes, kind="stable")  # records ascend already, so they do for each hash
    hashes, members = hashes[order], members[order]
    again = np.zeros(len(hashes), dtype=bool)
    again[1:] = (hashes[1:] == hashes[:-1]) & (members[1:] == members[:-1])
    hashes, members = hashes[~again], members[~again]
    hashes, starts = np.unique(hashes, return_index=True)
    starts = np.append(starts, len(members))
    keeps = np.array([record.keeps_frequent for record in records], dtype=bool)[members]
    return FeatureIndex(
        records=tuple(records),
        hashes=hashes,
        starts=starts,
        members=members,
        features_of_record=np.bincount(members, minlength=len(records)),
        ngram_words=ngram_words,
        shortest_words=shortest_words,
        keeps_frequent=np.logical_or.reduceat(keeps, starts[:-1]) if len(hashes) else keeps,
        is_run=np.isin(hashes, np.array(list(runs), dtype=np.uint64)),
        run_lengths=tuple(sorted(set(runs.values()))),
    )


def check_required(index: FeatureIndex) -> None:
    """Checks that every required record yields a feature.

    Raises:
        StepFailed: one does not; the message names the benchmark and up to five of the records.
    """
    without: dict[str, list[str]] = {}
    for record, count in zip(index.records, index.features_of_record, strict=True):
        if record.required and count == 0:
            without.setdefault(record.benchmark, []).append(record.name)
    if without:
        shown = "; ".join(f"{name}: {len(names)} records ({', '.join(names[:5])})" for name, names in without.items())
        raise StepFailed(
            f"required benchmark records give no feature, so training data could not be checked against them: "
            f"{shown}. Lower shortest_words, set short=True, or declare the field not required"
        )


@numba.njit(cache=True, nogil=True)
def _find(wanted, hashes, bitmap):
    found = np.full(wanted.size, -1, dtype=np.int64)
    shift = np.uint64(64)
    size = bitmap.size << 6
    while size > 1:
        shift -= np.uint64(1)
        size >>= 1
    for number in range(wanted.size):
        value = wanted[number]
        place = value >> shift
        if bitmap[place >> np.uint64(6)] >> (place & np.uint64(63)) & np.uint64(1):
            low, high = 0, hashes.size
            while low < high:
                middle = (low + high) >> 1
                if hashes[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            if low < hashes.size and hashes[low] == value:
                found[number] = low
    return found
