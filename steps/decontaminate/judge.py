"""From matches to judgements: which features are boilerplate, and which documents are contaminated.

A paragraph is contaminated when enough of its features are a benchmark's, and, where it has several, when at least
`min_hits` different ones are: a single shared n-gram is mostly chance. An item is found when enough of its features are in the
document: one that stands in a paragraph of other text is a small share of that paragraph, but all of itself. Boilerplate
(licence headers, well-known quotations) is left out of both sides of both fractions. It is known by its spread over
sources, or, for benchmarks that are documents of the same sources, by its frequency in one of them; a benchmark item that was
copied often within one source is no boilerplate. A paragraph or an item that is mostly boilerplate is not judged: the few
features at its seams (a year in a licence header) would be all that is left of it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from steps.decontaminate.index import FeatureIndex
from steps.decontaminate.rules import Boilerplate, Thresholds


@dataclass(frozen=True)
class Frequencies:
    """In how many documents of each source features were met; M features met, S sources."""

    sources: tuple[str, ...]
    features: np.ndarray
    """int64[M]: their numbers in the index, ascending."""
    documents: np.ndarray
    """int64[S, M]."""
    everywhere: np.ndarray
    """bool[M]: dropped in all sources."""
    in_source: np.ndarray
    """bool[S, M]: dropped in the source, for either reason."""

    def dropped_in(self, source: int, index: FeatureIndex) -> np.ndarray:
        """Returns bool[U]: the features of the index that are dropped in a source."""
        dropped = np.zeros(len(index.hashes), dtype=bool)
        dropped[self.features[self.in_source[source]]] = True
        return dropped


class Held(NamedTuple):
    """What a contaminated document has of one record."""

    hits: int
    """Distinct features, of those that count."""
    coverage: float
    """Share of the record's features, all that the document has."""


@dataclass(frozen=True)
class Verdict:
    """One contaminated document."""

    row: int
    benchmarks: tuple[str, ...]
    """Sorted; all that have a feature in a contaminated paragraph, or an item that was found."""
    max_overlap: float
    """The share of a paragraph's features that benchmarks have; of its worst paragraph."""
    coverage: float
    """The share of one item's features that are in the document; of the item with the highest."""
    num_hits: int
    """Distinct features of benchmarks in its contaminated paragraphs, and of the items found."""
    example: str
    """"<benchmark>:<record>" of the record with the most of them."""
    record: int
    """That record's number in the index."""
    records: dict[int, Held]
    """All records that have one of these features, by number."""
    paragraph: int
    """The paragraph with most of them, as numbered in the match table."""


def count_frequencies(
    index: FeatureIndex,
    matches: Mapping[str, list[pa.Table]],
    num_documents: Mapping[str, int],
    boilerplate: Boilerplate,
) -> Frequencies:
    """Returns how common every feature is, and where it is dropped.

    Args:
        index: the U features.
        matches: match tables of all shards, by source.
        num_documents: documents by source.
        boilerplate: the rule.
    """
    sources = tuple(matches)
    met = [
        [np.unique(np.stack([index.find(table["feature"].to_numpy()), table["row"].to_numpy()], axis=1), axis=0)[:, 0]
         for table in matches[source]]
        for source in sources
    ]  # fmt: skip
    features = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(each for tables in met for each in tables)]))
    documents = np.zeros((len(sources), len(features)), dtype=np.int64)
    for number, tables in enumerate(met):
        for each in tables:
            documents[number] += np.bincount(np.searchsorted(features, each), minlength=len(features))
    everywhere = (documents.sum(axis=0) >= boilerplate.documents) & ((documents > 0).sum(axis=0) >= boilerplate.sources)
    sizes = np.array([num_documents[source] for source in sources]).reshape(-1, 1)
    frequent = (documents >= boilerplate.source_documents) & (documents >= boilerplate.source_fraction * sizes)
    in_source = everywhere | (frequent & ~index.keeps_frequent[features])
    return Frequencies(sources, features, documents, everywhere, in_source)


def judge_matches(index: FeatureIndex, table: pa.Table, dropped: np.ndarray, thresholds: Thresholds) -> list[Verdict]:
    """Returns the contaminated documents of one shard, in the order of their rows.

    Args:
        index: the U features.
        table: match table of the shard.
        dropped: bool[U]: features that are boilerplate in this source.
        thresholds: the rule.
    """
    if not table.num_rows:
        return []
    features, run = index.find(table["feature"].to_numpy()), table["run"].to_numpy()
    is_dropped = dropped[features]
    keys = np.stack([table["row"].to_numpy(), table["paragraph"].to_numpy()], axis=1)
    paragraphs, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    kept = np.unique(np.stack([number, features, run], axis=1)[~is_dropped], axis=0)  # paragraph, feature, run

    all_usable = table["usable"].to_numpy()[first]
    usable = all_usable - np.bincount(number, weights=is_dropped & ~run, minlength=len(first))
    matched = np.bincount(number, weights=~is_dropped & ~run, minlength=len(first))
    distinct = np.bincount(kept[kept[:, 2] == 0, 0], minlength=len(first))
    overlap = matched / np.maximum(usable, 1)
    needed = np.where(usable == 1, 1, thresholds.min_hits)
    bad = (overlap >= thresholds.overlap) & (distinct >= needed) & (matched > 0) & (2 * usable >= all_usable)
    if thresholds.absolute_hits is not None:
        bad |= distinct >= thresholds.absolute_hits

    rows = paragraphs[kept[:, 0], 0]  # ascending, as paragraphs are
    items = _items(index, rows, kept[:, 1], dropped, thresholds)
    found = sorted({*paragraphs[bad, 0].tolist(), *(row for row, each in items.items() if each.found)})
    verdicts = []
    for row, begin, end in zip(found, np.searchsorted(rows, found), np.searchsorted(rows, found, "right"), strict=True):
        mine, item = kept[begin:end], items[row]
        places, records = index.record_pairs(mine[:, 1])
        counted = bad[mine[:, 0]]
        counted[places[np.isin(records, list(item.found))]] = True
        hits = mine[counted]
        in_paragraph = Counter(hits[:, 0].tolist())
        shown = max(in_paragraph, key=lambda each: (bad[each], in_paragraph[each], overlap[each], -each))
        hits_of_record = Counter(index.record_pairs(np.unique(hits[:, 1]))[1].tolist())
        most = min(hits_of_record, key=lambda record: (record not in item.found, -hits_of_record[record], record))
        example = index.records[most]
        verdicts.append(
            Verdict(
                row=row,
                benchmarks=tuple(sorted({index.records[record].benchmark for record in hits_of_record})),
                max_overlap=max(float(overlap[each]) for each in in_paragraph if bad[each] or not bad[shown]),
                coverage=max(item.shares[record] for record in hits_of_record),
                records={each: Held(count, item.shares[each]) for each, count in sorted(hits_of_record.items())},
                num_hits=len(np.unique(hits[:, 1])),
                example=f"{example.benchmark}:{example.name}",
                record=most,
                paragraph=int(paragraphs[shown, 1]),
            )
        )
    return verdicts


@dataclass
class _Items:
    """What one document holds of the records."""

    shares: dict[int, float] = field(default_factory=dict)
    """Of each record with a feature there: the share of its features."""
    found: set[int] = field(default_factory=set)
    """Records of which that is enough."""


def _items(
    index: FeatureIndex, rows: np.ndarray, features: np.ndarray, dropped: np.ndarray, thresholds: Thresholds
) -> dict[int, _Items]:
    """Returns what each document holds of the records, by row.

    Args:
        index: the U features.
        rows: int64[H]: of H hits, the document of each.
        features: int64[H]: its feature.
        dropped: bool[U]: features that are boilerplate in this source.
        thresholds: the rule.
    """
    pairs = np.unique(np.stack([rows, features], axis=1), axis=0)
    places, records = index.record_pairs(pairs[:, 1])
    held, counts = np.unique(np.stack([pairs[places, 0], records], axis=1), axis=0, return_counts=True)
    total = index.features_of_record
    usable = total - np.bincount(index.record_pairs(np.flatnonzero(dropped))[1], minlength=len(total))
    items: dict[int, _Items] = {}
    for (row, record), count in zip(held.tolist(), counts.tolist(), strict=True):
        item = items.setdefault(row, _Items())
        item.shares[record] = share = count / int(usable[record])
        enough = thresholds.item_coverage is not None and share >= thresholds.item_coverage
        if enough and count >= min(thresholds.min_hits, total[record]) and 2 * usable[record] >= total[record]:
            item.found.add(record)
    return items
