"""The step "decontaminate/ngrams": which documents overlap a benchmark or a held-out document.

Output:

* `<source>/part-NNNNN.parquet`: sparse attribute table of the contaminated documents (id, benchmark, max_overlap,
  coverage, num_hits, example);
* `hits_by_item.parquet`: items that contaminated documents have features of (benchmark, item, documents,
  most_hits, best_coverage);
* `flagged_samples.json`: contaminated documents by benchmark, to be read: the paragraph that gave each away beside the item, what
  they share marked in both;
* `counts.json`: the typed result's counters, for pages;
* `evidence/boilerplate.parquet`: the features left out for being common, with their text, records and frequencies;
* `evidence/features.parquet`: every feature met in a document, its records and in how many documents it was met;
* `evidence/matches/<source>/part-NNNNN.parquet`: all matches, so that other thresholds can be tried without the text.
"""

import time
from dataclasses import dataclass, field, fields
from typing import Annotated

from marin_exec import ConfigError, InputPath, Out, kind, measured
from steps.config_checks import check_number, check_sources
from steps.decontaminate.benchmarks import HUMANEVAL, DocumentsBenchmark, PackageBenchmark
from steps.decontaminate.rules import Boilerplate, Thresholds
from steps.documents import NamedInput
from steps.files import write_json


@dataclass(frozen=True, kw_only=True)
class DecontaminateConfig:
    sources: tuple[NamedInput, ...]
    """Documents data sets to check."""
    package_benchmarks: tuple[PackageBenchmark, ...] = (HUMANEVAL,)
    """Benchmarks from installed packages."""
    suites: tuple[InputPath, ...] = ()
    """Benchmarks that other steps read, as their `items.parquet` (steps/decontaminate/items.py)."""
    documents_benchmarks: tuple[DocumentsBenchmark, ...] = ()
    """Held-out documents, as documents data sets; usually one for each source."""
    ngram_words: int = 13
    """Words in an n-gram."""
    shortest_words: int = 3
    """Shorter paragraphs say nothing; from here to n - 1 words they count as a whole."""
    shortest_run_words: int = 8
    """Items of so many words, and fewer than n, are looked for inside paragraphs too; n or more: none are."""
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
        check_number(self, "shortest_words", "shortest_run_words", "ngram_words", low=1)
        check_number(self, "shortest_words", high=self.ngram_words)
        check_number(self, "samples_per_benchmark", low=0)
        names = [benchmark.name for benchmark in (*self.package_benchmarks, *self.documents_benchmarks)]
        if not names and not self.suites:
            raise ConfigError(
                "DecontaminateConfig: no benchmark is given; name at least one in package_benchmarks, suites or "
                "documents_benchmarks"
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


_MEASURED = ("seconds", "scanned_megabytes_per_second")


@kind("decontaminate/ngrams", version=2)
def find_contaminated(config: DecontaminateConfig, out: Out) -> DecontaminateResult:
    """Checks all documents against all benchmarks.

    Raises:
        ConfigError: a benchmark's package is missing or not as declared.
        StepFailed: a benchmark is incomplete, or one of its required records could not be checked against.
    """
    from steps.decontaminate import stages  # brings numba in, which planning doesn't need

    started = time.monotonic()
    scan = stages.scan(config, out)
    scanned = time.monotonic() - started
    frequencies = stages.count_frequencies(scan.index, scan.matches, scan.total("documents"), config.boilerplate)
    verdicts = stages.judge(config, scan, frequencies, out)
    result = DecontaminateResult(
        documents_in=scan.total("documents"),
        documents_skipped=scan.total("skipped"),
        contaminated={name: sum(len(verdicts[name, shard]) for shard in scan.shards[name]) for name in scan.shards},
        features_checked=sum(scan.total("features").values()),
        **stages.benchmark_counts(scan.index, [verdict for found in verdicts.values() for _, verdict in found]),
        **stages.frequency_counts(frequencies),
        seconds=time.monotonic() - started,
        scanned_megabytes_per_second=sum(scan.total("num_bytes").values()) / 1e6 / scanned,
    )
    counters = {each.name: getattr(result, each.name) for each in fields(result) if each.name not in _MEASURED}
    write_json(out.file("counts.json"), counters)
    return result
