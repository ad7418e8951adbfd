"""Fuzzy deduplication: MinHash bands propose clusters of documents, containment decides inside them.

1. Each documents shard is signed on its own (word-5 shingles, 26 bands of 11 rows), as a committed shard of the step.
2. Documents that share a band form candidate clusters, on one node.
3. In a cluster, taken in the order of the survivor rule, a document is removed when a kept one before it holds `containment`
   of its distinct word 3-grams.

Survivor rules. "longest": length in words first; ties go to the earlier source, then to the lesser id. So a short text of the
first source does fall to a longer copy in the last. "priority": the source first, then length; then a longer copy in a later
source may fall to a shorter one. By either, up to 1 - `containment` of a removed document's n-grams may be in nothing that stays.

Earlier runs (`earlier`): new documents are compared with each other and with what earlier runs kept, as if those had been
there first, with priority. What an earlier run signed and judged is read, not made again. So no new document removes an
old one, be it longer; and where one ties two old clusters together, their members are not compared with each other.

Templates: short texts that differ in a number only stay (too few shingles in common), long ones mostly do not.

The result depends on the documents and the config alone: not on how they are cut into shards, nor on workers. Memory on
the one node: 60 bytes a document and 8 more for each band of a pass, and 16 bytes a word of the clusters in hand.
"""

import logging
from dataclasses import dataclass
from typing import Annotated

from marin_exec import ConfigError, InputPath, Out, kind, runtime
from steps.config_checks import check_choice, check_number, check_sources, source_names
from steps.documents import NamedInput

_LOGGER = logging.getLogger(__name__)
_CURVE_POINTS = (0.5, 0.6, 0.7, 0.8, 0.9)
_LEAST_AT_08 = 0.5
"""Below this chance of finding a pair at Jaccard 0.8, bands and rows were most likely meant the other way round."""


@dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """A dedup/fuzzy that is done, against which new documents are compared."""

    fuzzy: InputPath
    """Its output, made with the same bands, rows, shingle_words, seed and max_characters."""
    sources: tuple[NamedInput, ...]
    """Its `sources`, by the names that it knew them by. (Its own earlier runs have to be given beside it.)"""

    def __post_init__(self) -> None:
        check_sources(self, "sources")


@dataclass(frozen=True, kw_only=True)
class FuzzyConfig:
    """What is compared, how candidates are found, and what is removed."""

    sources: tuple[NamedInput, ...]
    """Documents data sets, in order of priority between copies of equal length."""
    exact: InputPath
    """Output of dedup/exact on the same sources (those of earlier runs may stand before them): its hits are left out."""
    bands: int = 26
    """Bands: documents that agree in all rows of any one are candidates."""
    rows: int = 11
    """Hash functions in a band."""
    shingle_words: int = 5
    """Words in a shingle; a shorter text is one shingle."""
    containment: float = 0.9
    """Least share of a document's distinct word n-grams that a kept one must hold for it to be removed, in (0, 1]."""
    containment_words: int = 3
    """Words in an n-gram of the containment."""
    seed: int = 42
    """Seed of the hash functions."""
    max_characters: int = 500_000
    """Characters of a document that its signature covers; containment is always of the whole text."""
    survivor: str = "longest"
    """Who stays of a cluster: "longest", or "priority" (of the sources, then the longest)."""
    exempt: tuple[str, ...] = ()
    """Sources that lose nothing; others lose what these hold."""
    earlier: tuple[EarlierRun, ...] = ()
    """Runs whose kept documents stand, and come before all others in priority."""
    audit_pairs: int = 20
    """Pairs of each verdict and source in `audit.parquet`."""
    alarm_fraction: float = 0.5
    """Share of a source's documents above which their removal is reported as an alarm."""
    bands_per_pass: Annotated[int, runtime] = 26
    """Bands held in memory at once."""
    words_per_pass: Annotated[int, runtime] = 50_000_000
    """Words of clusters that are judged at once; each pass reads the shards that it needs."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "bands", "rows", "shingle_words", "containment_words", "max_characters", low=1)
        check_number(self, "bands_per_pass", "words_per_pass", low=1)
        check_number(self, "containment", above=0, high=1)
        check_number(self, "alarm_fraction", low=0, high=1)
        check_number(self, "audit_pairs", low=0)
        check_choice(self, "survivor", ("longest", "priority"))
        own = source_names(self.sources)
        if unknown := sorted(set(self.exempt) - set(own)):
            raise ConfigError(f"FuzzyConfig.exempt: {unknown}; names of sources are needed, which are {own}")
        names = own + [name for run in self.earlier for name in source_names(run.sources)]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"FuzzyConfig.earlier: {repeated} in more than one run; new data of a source needs a name of its own, "
                f'e.g. "{repeated[0]}-2"'
            )


@dataclass(frozen=True)
class FuzzyResult:
    """Counters of fuzzy deduplication."""

    documents_in: int
    """Documents of all sources."""
    exact_duplicates: int
    """Left out, since dedup/exact removes them."""
    no_words: int
    """Left out, since there is no word in them to compare."""
    short: int
    """Documents of fewer words than a shingle: only equal word sequences make these candidates."""
    truncated: int
    """Documents whose signature covers their first `max_characters` only."""
    candidate_pairs: int
    """Distinct links by which bands tied documents into clusters."""
    clusters: int
    """Candidate clusters of two or more, one of which at least is new."""
    clustered_documents: int
    """Documents in them."""
    largest_cluster: int
    """Documents in the largest."""
    earlier_documents: int
    """Signed documents of earlier runs, removed ones included. They are in none of the other counters but those of clusters."""
    removed: int
    """Documents removed."""
    exempt: int
    """Documents that would have been removed, but for their source being exempt."""
    bounded: int
    """Documents that stay in clusters so large that they were not compared with all that might hold them."""
    documents_in_by_source: dict[str, int]
    """Documents, by source."""
    removed_by_source: dict[str, int]
    """Removed documents, by source."""
    alarms: list[str]
    """Sources that lose more than `alarm_fraction`, with the figures."""
    s_curve: dict[str, float]
    """Chance that two documents become candidates, by the Jaccard similarity of their shingles."""
    warnings: list[str]
    """What is odd about the config."""


def candidate_chance(jaccard: float, bands: int, rows: int) -> float:
    """Returns the chance that two documents of this Jaccard similarity share a band."""
    return 1 - (1 - jaccard**rows) ** bands


def curve_warnings(bands: int, rows: int) -> list[str]:
    """Returns a warning if `bands` and `rows` miss most near-duplicates."""
    chance = candidate_chance(0.8, bands, rows)
    if chance >= _LEAST_AT_08:
        return []
    return [
        f"bands={bands} and rows={rows} find a pair of Jaccard similarity 0.8 with a chance of {chance:.3f} only; "
        f"were they swapped? bands=26 and rows=11 find it with 0.903"
    ]


def removal_alarms(documents: dict[str, int], removed: dict[str, int], alarm_fraction: float) -> list[str]:
    """Returns a line for each source that loses more than `alarm_fraction` of its documents."""
    return [
        f"{name}: {removed[name]} of {count} documents removed ({removed[name] / count:.0%}; alarm above "
        f"{alarm_fraction:.0%})"
        for name, count in documents.items()
        if count and removed[name] / count > alarm_fraction
    ]


@kind("dedup/fuzzy", version=2)
def fuzzy_duplicates(config: FuzzyConfig, out: Out) -> FuzzyResult:
    """Writes the removed documents, per source and shard: `id, kept_source, kept_id, containment, jaccard`.

    Beside them: `clusters.parquet`, all members of candidate clusters with their fates; `audit.parquet`, pairs to be looked
    at with excerpts of both texts (see `audit.py`); `signatures/`, the bands, by which a later run compares with this one.

    Raises:
        StepFailed: a source breaks the documents contract, `exact` was made from other sources, or an earlier run was made
            with other parameters or from other sources.
    """
    from steps.dedup import (
        audit,
        fuzzy_stages,
        fuzzy_tables,
        nodes,
    )  # these bring numba in, which planning doesn't need

    warnings = curve_warnings(config.bands, config.rows)
    for warning in warnings:
        _LOGGER.warning("dedup/fuzzy: %s", warning)
        out.progress(f"warning: {warning}")
    signed, counts = fuzzy_stages.sign(config, out)

    def total(counter: str) -> int:
        return sum(getattr(count, counter) for _, count in counts)

    out.progress(f"signed {total('signed')} of {total('documents_in')} documents")
    numbered = nodes.number(signed)
    found = fuzzy_stages.cluster(config, signed, numbered)
    out.progress(f"{len(found.clusters)} candidate clusters from {found.num_links} links")
    verdicts = fuzzy_stages.verify(config, signed, numbered, found)
    fuzzy_tables.write_tables(out, signed, numbered, found, verdicts)
    audit.write_audit(config, out, signed, numbered, verdicts)

    documents = {
        source.name: sum(count.documents_in for name, count in counts if name == source.name)
        for source in config.sources
    }
    removed = dict.fromkeys(documents, 0)
    for node, each in verdicts.comparisons.items():
        if each.removed:
            removed[signed.shards[numbered.shard_numbers[node]].source.name] += 1
    alarms = removal_alarms(documents, removed, config.alarm_fraction)
    for alarm in alarms:
        _LOGGER.warning("dedup/fuzzy: removal alarm: %s", alarm)
        out.progress(f"removal alarm: {alarm}")
    sizes = [len(members) for members in found.clusters]
    return FuzzyResult(
        documents_in=total("documents_in"),
        exact_duplicates=total("exact_duplicates"),
        no_words=total("no_words"),
        short=total("short"),
        truncated=total("truncated"),
        candidate_pairs=found.num_links,
        clusters=len(sizes),
        clustered_documents=sum(sizes),
        largest_cluster=max(sizes, default=0),
        earlier_documents=len(numbered) - total("signed"),
        removed=sum(removed.values()),
        exempt=verdicts.num_exempt,
        bounded=verdicts.num_bounded,
        documents_in_by_source=documents,
        removed_by_source=removed,
        alarms=alarms,
        s_curve={str(point): round(candidate_chance(point, config.bands, config.rows), 4) for point in _CURVE_POINTS},
        warnings=warnings,
    )
