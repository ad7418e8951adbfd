"""The stages of dedup/fuzzy: sign, cluster, verify, write. Documents are numbered as nodes by (id, source priority).

Numbering by id makes everything that follows independent of how documents lie in shards.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from marin_exec import Out
from steps.contract import read_documents
from steps.dedup import words
from steps.dedup.candidates import cluster_labels
from steps.dedup.fuzzy import FuzzyConfig
from steps.dedup.signatures import SignatureItem, SignatureParameters, band_name, read_signatures, sign_shard
from steps.dedup.sources import id_keys, id_of, source_shards
from steps.dedup.verify import Removal, verify_cluster
from steps.documents import NamedInput, write_table

_BATCH_ROWS = 512  # of which the words are held at once
_REMOVAL_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("kept_source", pa.string()),
        ("kept_id", pa.string()),
        ("containment", pa.float64()),
        ("jaccard", pa.float64()),
    ]
)
_CLUSTER_SCHEMA = pa.schema(
    [
        ("cluster_id", pa.string()),  # the least id in the cluster
        ("id", pa.string()),
        ("source", pa.string()),
        ("num_words", pa.int64()),
        ("removed", pa.bool_()),
        *list(_REMOVAL_SCHEMA)[1:],
    ]
)


@dataclass(frozen=True, kw_only=True)
class Signed:
    """The signature shards, and what became of the documents of each."""

    shards: list[tuple[int, NamedInput, str]]
    """(priority, source, shard file name), in order of sources and shards."""
    counts: list[dict[str, int]]
    """SignatureCounts of each shard, as plain values."""
    parameters: SignatureParameters
    """What they were made with."""
    path: str
    """Where they are: one directory a source."""

    def total(self, counter: str) -> int:
        return sum(count[counter] for count in self.counts)

    def by_source(self, counter: str) -> dict[str, int]:
        totals: dict[str, int] = {}
        for (_, source, _), count in zip(self.shards, self.counts, strict=True):
            totals[source.name] = totals.get(source.name, 0) + count[counter]
        return totals

    def read(self, columns: list[str]) -> pa.Table:
        """Returns columns of all signature shards, in order of the shards."""
        return pa.concat_tables(
            [
                read_signatures(f"{self.path}/{source.name}", shard, self.parameters, columns, counts["signed"])
                for (_, source, shard), counts in zip(self.shards, self.counts, strict=True)
            ]
        )


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """All signed documents, numbered."""

    keys: np.ndarray
    """uint64[N, 2] document id of each node; see `id_keys`."""
    num_words: np.ndarray
    """int64[N] words in each node's whole text."""
    priorities: np.ndarray
    """int64[N] number of each node's source."""
    shard_numbers: np.ndarray
    """int64[N] index into `Signed.shards`."""
    rows: np.ndarray
    """int64[N] row of each node in the signature shards, laid end to end."""


@dataclass(frozen=True)
class Clusters:
    """Candidate clusters."""

    clusters: list[np.ndarray]
    """Node numbers of each cluster of two or more, in order of precedence: longest, then source priority, then id."""
    num_links: int


@dataclass(frozen=True)
class Fate:
    """Why a node is removed: the kept node, and the evidence."""

    kept: int
    evidence: Removal


def sign(config: FuzzyConfig, out: Out) -> Signed:
    """Signs every documents shard, each as a shard of the step."""
    parameters = SignatureParameters(
        bands=config.bands,
        rows=config.rows,
        shingle_words=config.shingle_words,
        seed=config.seed,
        max_characters=config.max_characters,
    )
    shards = source_shards(config.sources)
    items = {
        f"{source.name}/{shard}": SignatureItem(
            source=source.name,
            path=source.path,
            exact_path=f"{config.exact}/{source.name}",
            shard=shard,
            parameters=parameters,
        )
        for _, source, shard in shards
    }
    counts = list(out.map_shards(sign_shard, items).values())
    return Signed(shards=shards, counts=counts, parameters=parameters, path=f"{out.path}/signatures")


def number(signed: Signed) -> Nodes:
    """Numbers the signed documents by (id, source priority)."""
    table = signed.read(["id", "num_words"])
    keys = id_keys(table["id"].combine_chunks(), signed.path)
    signed_in_shard = [counts["signed"] for counts in signed.counts]
    priorities = np.repeat(np.array([priority for priority, _, _ in signed.shards]), signed_in_shard)
    shard_numbers = np.repeat(np.arange(len(signed.shards)), signed_in_shard)
    rows = np.lexsort((priorities, keys[:, 1], keys[:, 0]))
    return Nodes(
        keys=keys[rows],
        num_words=table["num_words"].to_numpy()[rows],
        priorities=priorities[rows],
        shard_numbers=shard_numbers[rows],
        rows=rows,
    )


def cluster(config: FuzzyConfig, signed: Signed, nodes: Nodes) -> Clusters:
    """Finds the candidate clusters, reading `bands_per_pass` bands at a time."""

    def bands() -> Iterator[np.ndarray]:
        names = [band_name(band) for band in range(config.bands)]
        for start in range(0, len(names), config.bands_per_pass):
            table = signed.read(names[start : start + config.bands_per_pass])
            for column in table.columns:
                yield column.to_numpy()[nodes.rows]

    labels, num_links = cluster_labels(len(nodes.keys), bands())
    sizes = np.bincount(labels, minlength=len(labels))
    members = np.flatnonzero(sizes[labels] > 1)
    # Nodes are numbered by (id, priority); lexsort takes its last key first.
    members = members[np.lexsort((members, nodes.priorities[members], -nodes.num_words[members], labels[members]))]
    starts = np.flatnonzero(np.diff(labels[members], prepend=-1))
    return Clusters(np.split(members, starts[1:]) if members.size else [], num_links)


def verify(config: FuzzyConfig, signed: Signed, nodes: Nodes, found: Clusters) -> dict[int, Fate]:
    """Returns the removed nodes, each with its fate, in order of clusters and precedence."""
    grams = _clustered_grams(config, signed, nodes, found)
    fates: dict[int, Fate] = {}
    for members in found.clusters:
        for removal in verify_cluster([grams[node] for node in members], config.containment):
            fates[int(members[removal.member])] = Fate(int(members[removal.kept]), removal)
    return fates


def _clustered_grams(config: FuzzyConfig, signed: Signed, nodes: Nodes, found: Clusters) -> dict[int, np.ndarray]:
    """Returns the distinct n-grams (sorted uint64) of every node in a cluster, reading each documents shard once."""
    wanted: dict[int, dict[str, int]] = {}
    for members in found.clusters:
        for node in members.tolist():
            wanted.setdefault(int(nodes.shard_numbers[node]), {})[id_of(nodes.keys[node])] = node
    grams = {}
    for shard_number, shard_nodes in sorted(wanted.items()):
        _, source, shard = signed.shards[shard_number]
        table = read_documents(source.path, shard, ["id", "text"])
        rows = [row for row, identifier in enumerate(table["id"].to_pylist()) if identifier in shard_nodes]
        for batch in table.take(rows).to_batches(max_chunksize=_BATCH_ROWS):
            ngrams = words.ngram_hashes(words.word_hashes(batch["text"]), config.containment_words)
            for row, identifier in enumerate(batch["id"].to_pylist()):
                grams[shard_nodes[identifier]] = np.unique(ngrams.of(row))
    return grams


def write_tables(
    config: FuzzyConfig, out: Out, signed: Signed, nodes: Nodes, found: Clusters, fates: dict[int, Fate]
) -> None:
    """Writes the removals beside the documents' shards (empty tables where there are none), and `clusters.parquet`."""

    def evidence(node: int) -> tuple[str | None, str | None, float | None, float | None]:
        if node not in fates:
            return None, None, None, None
        fate = fates[node]
        source = config.sources[nodes.priorities[fate.kept]].name
        return source, id_of(nodes.keys[fate.kept]), fate.evidence.containment, fate.evidence.jaccard

    rows_by_shard: dict[int, list[tuple]] = {shard_number: [] for shard_number in range(len(signed.shards))}
    for node in sorted(fates):  # node order is id order
        rows_by_shard[int(nodes.shard_numbers[node])].append((id_of(nodes.keys[node]), *evidence(node)))
    for shard_number, rows in rows_by_shard.items():
        _, source, shard = signed.shards[shard_number]
        write_table(out.file(f"{source.name}/{shard}"), _table(rows, _REMOVAL_SCHEMA))

    rows = []
    for members in found.clusters:
        cluster_id = id_of(nodes.keys[members.min()])
        for node in members.tolist():
            source = config.sources[nodes.priorities[node]].name
            words_in_text = int(nodes.num_words[node])
            rows.append((cluster_id, id_of(nodes.keys[node]), source, words_in_text, node in fates, *evidence(node)))
    write_table(out.file("clusters.parquet"), _table(rows, _CLUSTER_SCHEMA))


def _table(rows: list[tuple], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
