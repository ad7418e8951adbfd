"""The stages of dedup/fuzzy before anything is written: sign, cluster, verify."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import Out, StepFailed
from steps.contract import read_documents
from steps.dedup import words
from steps.dedup.candidates import cluster_labels
from steps.dedup.fuzzy import FuzzyConfig
from steps.dedup.nodes import Nodes, Signed, SignedShard, earlier_shards
from steps.dedup.signatures import SignatureCounts, SignatureItem, SignatureParameters, band_name, sign_shard
from steps.dedup.sources import source_shards
from steps.dedup.verify import Comparison, judge_cluster

_BATCH_ROWS = 512  # of which the words are held at once


@dataclass(frozen=True)
class Clusters:
    """Candidate clusters in which there is something to judge."""

    clusters: list[np.ndarray]
    """Node numbers of each cluster in order of precedence: those that an earlier run kept, then the others by survivor
    rule. At least two, and one that is not an earlier run's."""
    num_links: int


@dataclass(frozen=True)
class Verdicts:
    """What became of the members of clusters."""

    comparisons: dict[int, Comparison]
    """By node, each with node numbers as `member` and `kept`; in order of clusters and precedence."""
    num_exempt: int
    num_bounded: int

    def removed(self, node: int) -> bool:
        return node in self.comparisons and self.comparisons[node].removed


def sign(config: FuzzyConfig, out: Out) -> tuple[Signed, list[tuple[str, SignatureCounts]]]:
    """Signs every documents shard, each as a shard of the step, and finds those of earlier runs.

    Returns:
        All signed shards, and for each shard of this run its source's name and what became of its documents.
    """
    parameters = SignatureParameters(
        bands=config.bands,
        rows=config.rows,
        shingle_words=config.shingle_words,
        seed=config.seed,
        max_characters=config.max_characters,
    )
    shards: list[SignedShard] = []
    num_earlier = 0
    for run in config.earlier:
        shards += earlier_shards(run.fuzzy, run.sources, num_earlier)
        num_earlier += len(run.sources)
    own = source_shards(config.sources)
    items = {
        f"{source.name}/{shard}": SignatureItem(
            source=source.name,
            path=source.path,
            exact_path=f"{config.exact}/{source.name}",
            shard=shard,
            parameters=parameters,
        )
        for _, source, shard in own
    }
    counts = [SignatureCounts(**values) for values in out.map_shards(sign_shard, items).values()]
    for (priority, source, shard), count in zip(own, counts, strict=True):
        shards.append(
            SignedShard(
                source=source,
                priority=num_earlier + priority,
                shard=shard,
                signatures=f"{out.path}/signatures/{source.name}",
                num_signed=count.signed,
            )
        )
    return Signed(shards, parameters), [(source.name, count) for (_, source, _), count in zip(own, counts, strict=True)]


def cluster(config: FuzzyConfig, signed: Signed, nodes: Nodes) -> Clusters:
    """Finds the candidate clusters, reading `bands_per_pass` bands at a time."""

    def bands() -> Iterator[np.ndarray]:
        names = [band_name(band) for band in range(config.bands)]
        for start in range(0, len(names), config.bands_per_pass):
            table = signed.read(names[start : start + config.bands_per_pass])
            for column in table.columns:
                yield column.to_numpy()[nodes.rows]

    labels, num_links = cluster_labels(len(nodes), bands())
    present = np.flatnonzero(~nodes.gone)
    sizes = np.bincount(labels[present], minlength=len(labels))
    unjudged = np.bincount(labels[present], weights=~nodes.standing[present], minlength=len(labels))
    members = present[(sizes > 1)[labels[present]] & (unjudged > 0)[labels[present]]]
    # Nodes are numbered by (id, priority); lexsort takes its last key first.
    by_length, by_source = -nodes.num_words[members], nodes.priorities[members]
    rule = (by_source, by_length) if config.survivor == "longest" else (by_length, by_source)
    members = members[np.lexsort((members, *rule, ~nodes.standing[members], labels[members]))]
    starts = np.flatnonzero(np.diff(labels[members], prepend=-1))
    return Clusters(np.split(members, starts[1:]) if members.size else [], num_links)


def verify(config: FuzzyConfig, signed: Signed, nodes: Nodes, found: Clusters) -> Verdicts:
    """Judges all clusters, holding the n-grams of `words_per_pass` words at a time, or of one cluster if it has more."""
    names = [source.name for run in config.earlier for source in run.sources]
    exempt = np.isin([*names, *(source.name for source in config.sources)], config.exempt)
    exempt[: len(names)] = False  # these stand anyway
    comparisons: dict[int, Comparison] = {}
    num_exempt = num_bounded = 0
    for clusters in _passes(config, nodes, found):
        grams = _grams(config, signed, nodes, clusters)
        for members in clusters:
            judged = judge_cluster(
                [grams[node] for node in members.tolist()],
                config.containment,
                num_standing=int(np.count_nonzero(nodes.standing[members])),
                exempt=exempt[nodes.priorities[members]],
            )
            num_exempt += judged.num_exempt
            num_bounded += judged.num_bounded
            for each in judged.comparisons:
                member, kept = int(members[each.member]), int(members[each.kept])
                comparisons[member] = Comparison(member, kept, each.containment, each.jaccard, each.removed)
    return Verdicts(comparisons, num_exempt, num_bounded)


def _passes(config: FuzzyConfig, nodes: Nodes, found: Clusters) -> Iterator[list[np.ndarray]]:
    chosen: list[np.ndarray] = []
    num_words = 0
    for members in found.clusters:
        cluster_words = int(nodes.num_words[members].sum())
        if chosen and num_words + cluster_words > config.words_per_pass:
            yield chosen
            chosen, num_words = [], 0
        chosen.append(members)
        num_words += cluster_words
    if chosen:
        yield chosen


def _grams(config: FuzzyConfig, signed: Signed, nodes: Nodes, clusters: list[np.ndarray]) -> dict[int, np.ndarray]:
    """Returns the distinct n-grams (sorted uint64) of every member, reading each documents shard once."""
    wanted: dict[int, dict[str, int]] = {}
    for members in clusters:
        for node in members.tolist():
            wanted.setdefault(int(nodes.shard_numbers[node]), {})[nodes.id(node)] = node
    grams = {}
    for shard_number, shard_nodes in sorted(wanted.items()):
        each = signed.shards[shard_number]
        table = documents_of(each, set(shard_nodes))
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            ngrams = words.ngram_hashes(words.word_hashes(batch["text"]), config.containment_words)
            for row, identifier in enumerate(batch["id"].to_pylist()):
                grams[shard_nodes[identifier]] = np.unique(ngrams.of(row))
    return grams


def documents_of(shard: SignedShard, identifiers: set[str]) -> pa.Table:
    """Returns the columns id and text of these documents of a shard.

    Raises:
        StepFailed: one is not there, so that the signatures were made from another data set.
    """
    table = read_documents(shard.source.path, shard.shard, ["id", "text"])
    rows = [row for row, identifier in enumerate(table["id"].to_pylist()) if identifier in identifiers]
    if len(rows) != len(identifiers):
        raise StepFailed(
            f"{shard.source.path}/{shard.shard}: {len(identifiers) - len(rows)} documents that {shard.signatures} knows are "
            f"not there; give the sources that the earlier run was made from"
        )
    return table.take(rows)
