"""Fuzzy deduplication: MinHash bands propose clusters of documents, containment decides inside them.

1. Each documents shard is signed on its own (word-5 shingles, 26 bands of 11 rows), as a committed shard of the step.
2. Documents that share a band form candidate clusters, on one node.
3. In a cluster, longest first, a document is removed when a kept one at least as long holds `containment` of its
   distinct word 3-grams. Length is counted in words; ties go to the earlier source, then to the lesser id.

Length comes before source priority, unlike in exact deduplication: a removed document's text has to be in the one that
stays, and only a longer one can hold it. So a short text of the first source does fall to a longer copy in the last.

Templates: short texts that differ in a number only stay (too few shingles in common), long ones mostly do not.

The result depends on the documents and the config alone: not on how they are cut into shards, nor on workers. Memory on
the one node: 8 bytes a document for each band of a pass, and 8 bytes a word of the clustered documents.
"""

import logging
from dataclasses import dataclass
from typing import Annotated

from marin_exec import ConfigError, InputPath, Out, kind, runtime
from steps.config_checks import check_sources
from steps.documents import NamedInput

_LOGGER = logging.getLogger(__name__)
_CURVE_POINTS = (0.5, 0.6, 0.7, 0.8, 0.9)
_LEAST_AT_08 = 0.5
"""Below this chance of finding a pair at Jaccard 0.8, bands and rows were most likely meant the other way round."""


@dataclass(frozen=True, kw_only=True)
class FuzzyConfig:
    """What is compared, how candidates are found, and what is removed."""

    sources: tuple[NamedInput, ...]
    """Documents data sets, in order of priority between copies of equal length."""
    exact: InputPath
    """Output of dedup/exact on the same sources: its hits are left out."""
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
    alarm_fraction: float = 0.5
    """Share of a source's documents above which their removal is reported as an alarm."""
    bands_per_pass: Annotated[int, runtime] = 26
    """Bands held in memory at once."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        for name in ("bands", "rows", "shingle_words", "containment_words", "max_characters", "bands_per_pass"):
            if getattr(self, name) < 1:
                raise ConfigError(f"dedup/fuzzy: {name} is {getattr(self, name)}; a whole number above 0 is needed")
        if not 0 < self.containment <= 1:
            raise ConfigError(f"dedup/fuzzy: containment is {self.containment}; a share in (0, 1] is needed")
        if not 0 <= self.alarm_fraction <= 1:
            raise ConfigError(f"dedup/fuzzy: alarm_fraction is {self.alarm_fraction}; a share in [0, 1] is needed")


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
    """Candidate clusters of two or more."""
    clustered_documents: int
    """Documents in them."""
    largest_cluster: int
    """Documents in the largest."""
    removed: int
    """Documents removed."""
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


@kind("dedup/fuzzy", version=1)
def fuzzy_duplicates(config: FuzzyConfig, out: Out) -> FuzzyResult:
    """Writes the removed documents, per source and shard: `id, kept_source, kept_id, containment, jaccard`.

    Beside them: `clusters.parquet`, all members of candidate clusters with their fates; `signatures/`, the bands.

    Raises:
        StepFailed: a source breaks the documents contract, or `exact` was made from other sources.
    """
    from steps.dedup import fuzzy_stages as stages  # brings numba in, which planning doesn't need

    warnings = curve_warnings(config.bands, config.rows)
    for warning in warnings:
        _LOGGER.warning("dedup/fuzzy: %s", warning)
        out.progress(f"warning: {warning}")
    signed = stages.sign(config, out)
    out.progress(f"signed {signed.total('signed')} of {signed.total('documents_in')} documents")
    nodes = stages.number(signed)
    found = stages.cluster(config, signed, nodes)
    out.progress(f"{len(found.clusters)} candidate clusters from {found.num_links} links")
    fates = stages.verify(config, signed, nodes, found)
    stages.write_tables(config, out, signed, nodes, found, fates)

    documents = signed.by_source("documents_in")
    removed = {source.name: 0 for source in config.sources}
    for node in fates:
        removed[config.sources[nodes.priorities[node]].name] += 1
    alarms = removal_alarms(documents, removed, config.alarm_fraction)
    for alarm in alarms:
        _LOGGER.warning("dedup/fuzzy: removal alarm: %s", alarm)
        out.progress(f"removal alarm: {alarm}")
    sizes = [len(members) for members in found.clusters]
    return FuzzyResult(
        documents_in=signed.total("documents_in"),
        exact_duplicates=signed.total("exact_duplicates"),
        no_words=signed.total("no_words"),
        short=signed.total("short"),
        truncated=signed.total("truncated"),
        candidate_pairs=found.num_links,
        clusters=len(sizes),
        clustered_documents=sum(sizes),
        largest_cluster=max(sizes, default=0),
        removed=len(fates),
        documents_in_by_source=documents,
        removed_by_source=removed,
        alarms=alarms,
        s_curve={str(point): round(candidate_chance(point, config.bands, config.rows), 4) for point in _CURVE_POINTS},
        warnings=warnings,
    )
