"""What decontaminate/ngrams does, one function a stage: scan all shards, count, judge."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from marin_exec import Out
from steps.contract import document_shards
from steps.decontaminate.evidence import write_frequencies, write_items_hit, write_samples, write_verdicts
from steps.decontaminate.index import FeatureIndex
from steps.decontaminate.judge import Frequencies, Verdict, count_frequencies, judge_matches
from steps.decontaminate.scan import ScanTask, Suite, load_index, scan_shard
from steps.documents import read_table

if TYPE_CHECKING:
    from steps.decontaminate.ngrams import DecontaminateConfig

__all__ = ["benchmark_counts", "count_frequencies", "frequency_counts", "judge", "scan"]


@dataclass(frozen=True)
class Scan:
    """What the pass over the text gave."""

    index: FeatureIndex
    shards: dict[str, list[str]]
    """By source."""
    counts: dict[str, dict[str, Any]]
    """`ScanCounts` by "<source>/<shard>"."""
    matches: dict[str, list[pa.Table]]
    """Match tables by source, a shard each."""

    def total(self, key: str) -> dict[str, int]:
        """Returns the sum of a count over each source's shards."""
        return {
            name: sum(self.counts[f"{name}/{shard}"][key] for shard in shards) for name, shards in self.shards.items()
        }


def scan(config: "DecontaminateConfig", out: Out) -> Scan:
    """Writes the matches of all shards and returns them."""
    suite = Suite(
        packages=config.package_benchmarks,
        items=config.suites,
        documents=config.documents_benchmarks,
        ngram_words=config.ngram_words,
        shortest_words=config.shortest_words,
        shortest_run_words=config.shortest_run_words,
    )
    load_index.cache_clear()  # paths may be the same and what is there another, in a process that lives on
    index = load_index(suite)
    shards = {source.name: document_shards(source.path) for source in config.sources}
    counts = out.map_shards(
        scan_shard,
        {
            f"{s.name}/{shard}": ScanTask(s.name, s.path, shard, suite)
            for s in config.sources
            for shard in shards[s.name]
        },
    )
    folder = f"{out.path}/evidence/matches"
    matches = {name: [read_table(f"{folder}/{name}", shard) for shard in shards[name]] for name in shards}
    return Scan(index, shards, counts, matches)


def judge(
    config: "DecontaminateConfig", scan: Scan, frequencies: Frequencies, out: Out
) -> dict[tuple[str, str], list[tuple[str, Verdict]]]:
    """Writes the sparse tables and the evidence; returns the verdicts with their documents' ids by source and shard."""
    verdicts = {}
    for number, source in enumerate(config.sources):
        dropped = frequencies.dropped_in(number, scan.index)
        for shard, table in zip(scan.shards[source.name], scan.matches[source.name], strict=True):
            found = judge_matches(scan.index, table, dropped, config.thresholds)
            verdicts[source.name, shard] = write_verdicts(source, shard, found, out)
    write_frequencies(scan.index, frequencies, out)
    write_items_hit(scan.index, [verdict for found in verdicts.values() for _, verdict in found], out)
    write_samples(scan.index, config.sources, verdicts, config.samples_per_benchmark, config.seed, out)
    return verdicts


def benchmark_counts(index: FeatureIndex, verdicts: list[Verdict]) -> dict[str, Any]:
    """Returns the fields of the result that count by benchmark."""
    names = list(dict.fromkeys(record.benchmark for record in index.records))
    records = Counter(record.benchmark for record in index.records)
    counts = zip(index.records, index.features_of_record, strict=True)
    empty = Counter(record.benchmark for record, count in counts if count == 0)
    contaminated = Counter(benchmark for verdict in verdicts for benchmark in verdict.benchmarks)
    number = {name: position for position, name in enumerate(names)}
    benchmark_of_record = np.array([number[record.benchmark] for record in index.records], dtype=np.int64)
    feature_of_member = np.repeat(np.arange(len(index.hashes)), np.diff(index.starts))
    pairs = np.unique(np.stack([benchmark_of_record[index.members], feature_of_member], axis=1), axis=0)
    features = np.bincount(pairs[:, 0], minlength=len(names)).tolist()
    return {
        "contaminated_by_benchmark": {name: contaminated[name] for name in names},
        "records": {name: records[name] for name in names},
        "records_without_features": {name: empty[name] for name in names},
        "features_by_benchmark": dict(zip(names, features, strict=True)),
        "features": len(index.hashes),
    }


def frequency_counts(frequencies: Frequencies) -> dict[str, Any]:
    """Returns the fields of the result on what was met and what was dropped."""
    dropped = frequencies.in_source.sum(axis=1).tolist()
    return {
        "features_met": len(frequencies.features),
        "features_dropped": int(frequencies.everywhere.sum()),
        "features_dropped_in_source": dict(zip(frequencies.sources, dropped, strict=True)),
    }
