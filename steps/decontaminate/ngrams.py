"""The step "decontaminate/ngrams": which documents overlap a benchmark or a held-out document.

Output:

* `<source>/part-NNNNN.parquet`: sparse attribute table of the contaminated documents (id, benchmark, max_overlap,
num_hits,
  example);
* `flagged_samples.json`: contaminated documents by benchmark, with the paragraph that gave them away, to be read;
* `evidence/boilerplate.parquet`: the features left out for being common, with their text, records and frequencies;
* `evidence/features.parquet`: every feature met in a document, its records and in how many documents it was met;
* `evidence/matches/<source>/part-NNNNN.parquet`: all matches, so that other thresholds can be tried without the text.
"""

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import fsspec
import numpy as np
import pyarrow as pa
import xxhash

from marin_exec import ConfigError, Out, kind, measured
from steps.decontaminate.benchmarks import HUMANEVAL, DocumentsBenchmark, PackageBenchmark
from steps.decontaminate.features import FeatureIndex, extract_features
from steps.decontaminate.judge import Boilerplate, Frequencies, Thresholds, Verdict, count_frequencies, judge_matches
from steps.decontaminate.scan import ScanTask, Suite, load_index, scan_shard
from steps.documents import NamedInput, read_table, shard_names, write_table


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
    thresholds: Thresholds = Thresholds()
    """What makes a document contaminated."""
    boilerplate: Boilerplate = Boilerplate()
    """Which features are too common to count."""
    samples_per_benchmark: int = 20
    """At most so many contaminated documents a benchmark go to flagged_samples.json."""
    seed: int = 0
    """Of the choice of samples."""


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
        ConfigError: a number is out of bounds, or a benchmark's package is missing or not as declared.
        StepFailed: a benchmark is incomplete, or one of its required records could not be checked against.
    """
    started = time.monotonic()
    _check(config)
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
            verdicts[source.name, shard] = _write_verdicts(source, shard, found, out)
    _write_evidence(index, frequencies, out)
    _write_samples(config, index, verdicts, out)

    flagged = [pair for found in verdicts.values() for pair in found]
    by_benchmark = Counter(benchmark for _, verdict in flagged for benchmark in verdict.benchmarks)
    names = list(dict.fromkeys(record.benchmark for record in index.records))
    records = Counter(record.benchmark for record in index.records)
    empty = Counter(
        record.benchmark for record, count in zip(index.records, index.features_of_record, strict=True) if count == 0
    )
    return DecontaminateResult(
        documents_in=total("documents"),
        documents_skipped=total("skipped"),
        contaminated={name: sum(len(verdicts[name, shard]) for shard in shards[name]) for name in shards},
        contaminated_by_benchmark={name: by_benchmark[name] for name in names},
        records={name: records[name] for name in names},
        records_without_features={name: empty[name] for name in names},
        features_by_benchmark=_features_by_benchmark(index, names),
        features=len(index.hashes),
        features_met=int((frequencies.documents.sum(axis=0) > 0).sum()),
        features_dropped=int(frequencies.everywhere.sum()),
        features_dropped_in_source={
            name: int(frequencies.in_source[number].sum()) for number, name in enumerate(frequencies.sources)
        },
        features_checked=sum(total("features").values()),
        seconds=time.monotonic() - started,
        scanned_megabytes_per_second=sum(total("num_bytes").values()) / 1e6 / scanned,
    )


def _check(config: DecontaminateConfig) -> None:
    if not 1 <= config.shortest_words <= config.ngram_words:
        raise ConfigError(
            f"shortest_words {config.shortest_words}, ngram_words {config.ngram_words}: 1 <= shortest_words <= "
            f"ngram_words is needed"
        )
    if not 0 < config.thresholds.overlap <= 1:
        raise ConfigError(f"thresholds.overlap {config.thresholds.overlap}: must be above 0 and at most 1")
    if not config.package_benchmarks and not config.documents_benchmarks:
        raise ConfigError("no benchmark is given; name at least one in package_benchmarks or documents_benchmarks")
    names = [benchmark.name for benchmark in (*config.package_benchmarks, *config.documents_benchmarks)]
    if len(set(names)) != len(names):
        raise ConfigError(f"benchmarks {names}: a name occurs twice; hits could not be told apart")
    taken = [source.name for source in config.sources if source.name.split("/")[0] == "evidence"]
    if taken:
        raise ConfigError(f"source {taken[0]!r}: the name is taken by this step's own folder; rename the source")


def _features_by_benchmark(index: FeatureIndex, names: list[str]) -> dict[str, int]:
    number = {name: position for position, name in enumerate(names)}
    benchmark_of_record = np.array([number[record.benchmark] for record in index.records], dtype=np.int64)
    feature_of_member = np.repeat(np.arange(len(index.hashes)), np.diff(index.starts))
    pairs = np.unique(np.stack([benchmark_of_record[index.members], feature_of_member], axis=1), axis=0)
    return dict(zip(names, np.bincount(pairs[:, 0], minlength=len(names)).tolist(), strict=True))


def _write_verdicts(source: NamedInput, shard: str, verdicts: list[Verdict], out: Out) -> list[tuple[str, Verdict]]:
    """Writes the sparse table of a shard; returns its verdicts by document id."""
    ids = read_table(source.path, shard, ["id"])["id"].to_pylist()
    found = [(ids[verdict.row], verdict) for verdict in verdicts]
    table = {
        "id": pa.array([identifier for identifier, _ in found], pa.string()),
        "benchmark": pa.array([",".join(verdict.benchmarks) for _, verdict in found], pa.string()),
        "max_overlap": pa.array([verdict.max_overlap for _, verdict in found], pa.float32()),
        "num_hits": pa.array([verdict.num_hits for _, verdict in found], pa.int32()),
        "example": pa.array([verdict.example for _, verdict in found], pa.string()),
    }
    write_table(out.file(f"{source.name}/{shard}"), pa.table(table))
    return found


def _write_evidence(index: FeatureIndex, frequencies: Frequencies, out: Out) -> None:
    def table(chosen: np.ndarray) -> dict[str, pa.Array]:
        records = [[f"{r.benchmark}:{r.name}" for r in index.records_of(int(feature))] for feature in chosen]
        columns = {"feature": pa.array(index.hashes[chosen]), "records": pa.array(records, pa.list_(pa.string()))}
        for number, source in enumerate(frequencies.sources):
            columns[f"documents:{source}"] = pa.array(frequencies.documents[number][chosen])
        return columns

    met = np.flatnonzero(frequencies.documents.sum(axis=0) > 0)
    write_table(out.file("evidence/features.parquet"), pa.table(table(met)))
    dropped = np.flatnonzero(frequencies.in_source.any(axis=0))
    columns = table(dropped)
    columns["everywhere"] = pa.array(frequencies.everywhere[dropped])
    columns["text"] = pa.array([index.excerpt(int(feature)) for feature in dropped], pa.string())
    write_table(out.file("evidence/boilerplate.parquet"), pa.table(columns))


def _write_samples(
    config: DecontaminateConfig,
    index: FeatureIndex,
    verdicts: dict[tuple[str, str], list[tuple[str, Verdict]]],
    out: Out,
) -> None:
    by_benchmark: dict[str, list[tuple[int, str, str, str, Verdict]]] = {}
    for (source, shard), found in verdicts.items():
        for identifier, verdict in found:
            rank = xxhash.xxh3_64_intdigest(identifier.encode(), seed=config.seed)
            for benchmark in verdict.benchmarks:
                by_benchmark.setdefault(benchmark, []).append((rank, identifier, source, shard, verdict))
    paths = {source.name: source.path for source in config.sources}
    samples = {}
    for benchmark in sorted(by_benchmark):
        chosen = sorted(by_benchmark[benchmark], key=lambda member: member[:4])[: config.samples_per_benchmark]
        samples[benchmark] = [
            _sample(config, index, source, read_table(paths[source], shard, ["id", "text", "source_id"]), verdict)
            for _, _, source, shard, verdict in chosen
        ]
    with fsspec.open(out.file("flagged_samples.json"), "w", encoding="utf-8") as file:
        json.dump(samples, file, indent=1, ensure_ascii=False)


def _sample(config: DecontaminateConfig, index: FeatureIndex, source: str, shard: pa.Table, verdict: Verdict) -> dict:
    features = extract_features([shard["text"][verdict.row].as_py()], config.ngram_words, config.shortest_words)
    worst = features.paragraphs == features.paragraphs[0] + verdict.paragraph
    hits = np.flatnonzero(worst & (index.find(features.hashes) >= 0))
    last = int(hits[-1])
    return {
        "id": shard["id"][verdict.row].as_py(),
        "source": source,
        "source_id": shard["source_id"][verdict.row].as_py(),
        "benchmarks": list(verdict.benchmarks),
        "example": verdict.example,
        "max_overlap": round(verdict.max_overlap, 4),
        "num_hits": verdict.num_hits,
        "matched_text": features.words.excerpt(
            int(features.firsts[hits[0]]), int(features.firsts[last] + features.lengths[last]) - 1
        )[:1000],
    }
