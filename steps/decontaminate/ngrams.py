"""The step "decontaminate/ngrams": which documents overlap a benchmark or a held-out document.

Output:

* `<source>/part-NNNNN.parquet`: sparse attribute table of the contaminated documents (id, benchmark, max_overlap,
  num_hits, example);
* `flagged_samples.json`: contaminated documents by benchmark, with the paragraph that gave them away, to be read;
* `evidence/boilerplate.parquet`: the features left out for being common, with their text, records and frequencies;
* `evidence/features.parquet`: every feature met in a document, its records and in how many documents it was met;
* `evidence/matches/<source>/part-NNNNN.parquet`: all matches, so that other thresholds can be tried without the text.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from marin_exec import ConfigError, Out, kind, measured
from steps.config_checks import check_number, check_sources
from steps.decontaminate.benchmarks import HUMANEVAL, DocumentsBenchmark, PackageBenchmark
from steps.decontaminate.evidence import write_frequencies, write_samples, write_verdicts
from steps.decontaminate.features import FeatureIndex
from steps.decontaminate.judge import Boilerplate, Frequencies, Thresholds, Verdict, count_frequencies, judge_matches
from steps.decontaminate.scan import ScanTask, Suite, load_index, scan_shard
from steps.documents import NamedInput, read_table, shard_names


@dataclass(frozen=True, kw_only=True)
class DecontaminateConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets to check."""
    package_benchmarks: tuple[PackageBenchmark, ...] = (HUMANEVAL,)
    """Benchmarks from installed packages."""
    documents_benchmarks: tuple[DocumentsBenchmark, ...] = ()
    """Held-out documents, as documents data sets; usually one for each source."""
    ngram_words: int = 13
    """Words in an n-gram."""
    shortest_words: int = 3
    """Shorter paragraphs say nothing; from here to n - 1 words they count as a whole."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """What makes a document contaminated."""
    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    """Which features are too common to count."""
    samples_per_benchmark: int = 20
    """At most so many contaminated documents a benchmark go to flagged_samples.json."""
    seed: int = 0
    """Of the choice of samples."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "shortest_words", "ngram_words", low=1)
        check_number(self, "shortest_words", high=self.ngram_words)
        check_number(self, "samples_per_benchmark", low=0)
        names = [benchmark.name for benchmark in (*self.package_benchmarks, *self.documents_benchmarks)]
        if not names:
            raise ConfigError(
                "DecontaminateConfig: no benchmark is given; name at least one in package_benchmarks or documents_benchmarks"
            )
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"DecontaminateConfig: benchmark {repeated} occurs twice; hits could not be told apart")
        if taken := [source.name for source in self.sources if source.name.split("/")[0] == "evidence"]:
            raise ConfigError(
                f"DecontaminateConfig.sources: {taken[0]!r} is the name of this step's own folder; rename the source"
            )


@dataclass(frozen=True)
class DecontaminateResult:
    """Counts by source (documents) and by benchmark; a document with hits of two benchmarks counts under both."""

    documents_in: dict[str, int]
    documents_skipped: dict[str, int]
    """Held-out documents themselves: they are records, and leave training by the held-out table."""
    contaminated: dict[str, int]
    contaminated_by_benchmark: dict[str, int]
    records: dict[str, int]
    records_without_features: dict[str, int]
    features_by_benchmark: dict[str, int]
    features: int
    features_met: int
    features_dropped: int
    features_dropped_in_source: dict[str, int]
    """The ones dropped everywhere included."""
    features_checked: int
    """Features of documents, repeats included."""
    seconds: Annotated[float, measured]
    scanned_megabytes_per_second: Annotated[float, measured]
    """Of all shards together, with the start of their workers."""


@kind("decontaminate/ngrams", version=1)
def find_contaminated(config: DecontaminateConfig, out: Out) -> DecontaminateResult:
    """Checks all documents against all benchmarks.

    Raises:
        ConfigError: a benchmark's package is missing or not as declared.
        StepFailed: a benchmark is incomplete, or one of its required records could not be checked against.
    """
    started = time.monotonic()
    suite = Suite(
        packages=config.package_benchmarks,
        documents=config.documents_benchmarks,
        ngram_words=config.ngram_words,
        shortest_words=config.shortest_words,
    )
    load_index.cache_clear()  # paths may be the same and what is there another, in a process that lives on
    index = load_index(suite)
    shards = {source.name: shard_names(source.path) for source in config.sources}
    counts = out.map_shards(
        scan_shard,
        {
            f"{s.name}/{shard}": ScanTask(s.name, s.path, shard, suite)
            for s in config.sources
            for shard in shards[s.name]
        },
    )
    scanned = time.monotonic() - started

    def total(key: str) -> dict[str, int]:
        return {name: sum(counts[f"{name}/{shard}"][key] for shard in shards[name]) for name in shards}

    matches = {
        name: [read_table(f"{out.path}/evidence/matches/{name}", shard) for shard in shards[name]] for name in shards
    }
    frequencies = count_frequencies(index, matches, total("documents"), config.boilerplate)
    verdicts = {}
    for number, source in enumerate(config.sources):
        for shard, table in zip(shards[source.name], matches[source.name], strict=True):
            found = judge_matches(index, table, frequencies.in_source[number], config.thresholds)
            verdicts[source.name, shard] = write_verdicts(source, shard, found, out)
    write_frequencies(index, frequencies, out)
    write_samples(index, config.sources, verdicts, config.samples_per_benchmark, config.seed, out)
    return DecontaminateResult(
        documents_in=total("documents"),
        documents_skipped=total("skipped"),
        contaminated={name: sum(len(verdicts[name, shard]) for shard in shards[name]) for name in shards},
        features_checked=sum(total("features").values()),
        **_benchmark_counts(index, [verdict for found in verdicts.values() for _, verdict in found]),
        **_frequency_counts(frequencies),
        seconds=time.monotonic() - started,
        scanned_megabytes_per_second=sum(total("num_bytes").values()) / 1e6 / scanned,
    )


def _benchmark_counts(index: FeatureIndex, verdicts: list[Verdict]) -> dict[str, Any]:
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


def _frequency_counts(frequencies: Frequencies) -> dict[str, Any]:
    """Returns the fields of the result on what was met and what was dropped."""
    dropped = frequencies.in_source.sum(axis=1).tolist()
    return {
        "features_met": int((frequencies.documents.sum(axis=0) > 0).sum()),
        "features_dropped": int(frequencies.everywhere.sum()),
        "features_dropped_in_source": dict(zip(frequencies.sources, dropped, strict=True)),
    }
