"""From matches to judgements: which features are boilerplate, and which documents are contaminated.

A paragraph is contaminated when enough of its features are a benchmark's, and, where it has several, when at least
`min_hits` different ones are: a single shared n-gram is mostly chance. Boilerplate (licence headers, well-known
quotations) is left out of both sides of the fraction. It is known by its spread over sources, or, for benchmarks that
are documents of the same sources, by its frequency in one of them; a benchmark item that was copied often within one
source is no boilerplate. A paragraph that is mostly boilerplate is not judged: the few features at its seams (a year
in a licence header) would be all that is left of it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from steps.config_checks import check_number
from steps.decontaminate.features import FeatureIndex


@dataclass(frozen=True, kw_only=True)
class Boilerplate:
    """When a benchmark's feature is too common in the documents to say anything."""

    documents: int = 20
    """In at least so many documents ..."""
    sources: int = 3
    """... of at least so many sources: dropped everywhere."""
    source_documents: int = 10
    """In at least so many documents of one source ..."""
    source_fraction: float = 0.002
    """... that are at least this share of it: dropped in that source, for features of documents benchmarks only."""

    def __post_init__(self) -> None:
        check_number(self, "documents", "sources", "source_documents", low=1)
        check_number(self, "source_fraction", low=0, high=1)


@dataclass(frozen=True)
class Frequencies:
    """In how many documents of each source each feature was met; U features, S sources."""

    sources: tuple[str, ...]
    documents: np.ndarray
    """int64[S, U]."""
    everywhere: np.ndarray
    """bool[U]: dropped in all sources."""
    in_source: np.ndarray
    """bool[S, U]: dropped in the source, for either reason."""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """What makes a paragraph, and with it its document, contaminated."""

    overlap: float = 0.5
    """Share of a paragraph's features that a benchmark has, from which on it is contaminated."""
    min_hits: int = 2
    """So many different features must match, where the paragraph has several."""
    absolute_hits: int | None = None
    """From so many different features on, a paragraph is contaminated whatever their share; finds items inside long
    paragraphs, at the price of more boilerplate (off by default)."""

    def __post_init__(self) -> None:
        check_number(self, "overlap", above=0, high=1)
        check_number(self, "min_hits", "absolute_hits", low=1)


@dataclass(frozen=True)
class Verdict:
    """One contaminated document."""

    row: int
    benchmarks: tuple[str, ...]
    """Sorted; all that have a feature in a contaminated paragraph."""
    max_overlap: float
    num_hits: int
    """Distinct features of benchmarks in its contaminated paragraphs."""
    example: str
    """"<benchmark>:<record>" of the record with the most of them."""
    paragraph: int
    """The worst paragraph, as numbered in the match table."""


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
    documents = np.zeros((len(sources), len(index.hashes)), dtype=np.int64)
    for number, source in enumerate(sources):
        for table in matches[source]:
            met = np.stack([table["row"].to_numpy(), index.find(table["feature"].to_numpy())], axis=1)
            documents[number] += np.bincount(np.unique(met, axis=0)[:, 1], minlength=len(index.hashes))
    everywhere = (documents.sum(axis=0) >= boilerplate.documents) & ((documents > 0).sum(axis=0) >= boilerplate.sources)
    sizes = np.array([num_documents[source] for source in sources]).reshape(-1, 1)
    frequent = (documents >= boilerplate.source_documents) & (documents >= boilerplate.source_fraction * sizes)
    return Frequencies(sources, documents, everywhere, everywhere | (frequent & ~index.keeps_frequent))


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
    features = index.find(table["feature"].to_numpy())
    keys = np.stack([table["row"].to_numpy(), table["paragraph"].to_numpy()], axis=1)
    paragraphs, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    is_dropped = dropped[features]
    usable = table["usable"].to_numpy()[first] - np.bincount(number, weights=is_dropped, minlength=len(first))
    matched = np.bincount(number, weights=~is_dropped, minlength=len(first))
    kept_pairs = np.unique(np.stack([number[~is_dropped], features[~is_dropped]], axis=1), axis=0)
    distinct = np.bincount(kept_pairs[:, 0], minlength=len(first))
    overlap = matched / np.maximum(usable, 1)

    needed = np.where(usable == 1, 1, thresholds.min_hits)
    contaminated = (overlap >= thresholds.overlap) & (distinct >= needed) & (matched > 0)
    contaminated &= 2 * usable >= table["usable"].to_numpy()[first]
    if thresholds.absolute_hits is not None:
        contaminated |= distinct >= thresholds.absolute_hits

    by_row: dict[int, list[int]] = {}
    for paragraph in np.flatnonzero(contaminated):
        by_row.setdefault(int(paragraphs[paragraph, 0]), []).append(int(paragraph))
    bounds = np.searchsorted(kept_pairs[:, 0], np.arange(len(first) + 1))
    verdicts = []
    for row, members in by_row.items():
        found = {int(f) for member in members for f in kept_pairs[bounds[member] : bounds[member + 1], 1]}
        worst = max(members, key=lambda member: (overlap[member], distinct[member], -member))
        verdicts.append(_verdict(index, row, found, float(overlap[worst]), int(paragraphs[worst, 1])))
    return verdicts


def _verdict(index: FeatureIndex, row: int, features: set[int], overlap: float, paragraph: int) -> Verdict:
    records = Counter(
        int(member)
        for feature in features
        for member in index.members[index.starts[feature] : index.starts[feature + 1]]
    )
    most = min(records, key=lambda member: (-records[member], member))
    example = index.records[most]
    return Verdict(
        row=row,
        benchmarks=tuple(sorted({index.records[member].benchmark for member in records})),
        max_overlap=overlap,
        num_hits=len(features),
        example=f"{example.benchmark}:{example.name}",
        paragraph=paragraph,
    )
