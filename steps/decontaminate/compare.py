"""The step "decontaminate/compare": which documents another run judges otherwise, e.g. with other thresholds or more suites.

Output: `changes.parquet`, a row for each document that is contaminated in one of the two runs only, or in both for other
benchmarks: `source, id, change` ("found", "lost", "other benchmarks"), and of each run `benchmark, max_overlap, coverage, num_hits,
example` with `_before` and `_after` (null where it was not found).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from marin_exec import ConfigError, InputPath, Out, kind
from steps.documents import read_table, shard_names, write_table

_COLUMNS = {
    "benchmark": pa.string(),
    "max_overlap": pa.float32(),
    "coverage": pa.float32(),
    "num_hits": pa.int32(),
    "example": pa.string(),
}
_SCHEMA = pa.schema(
    [("source", pa.string()), ("id", pa.string()), ("change", pa.string())]
    + [(f"{name}_{run}", type) for run in ("before", "after") for name, type in _COLUMNS.items()]
)


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    before: InputPath
    """Output of decontaminate/ngrams."""
    after: InputPath
    """Another, on the same documents; they may be cut into other shards."""
    sources: tuple[str, ...]
    """Names of the sources that are compared."""

    def __post_init__(self) -> None:
        if not self.sources or len(set(self.sources)) < len(self.sources):
            raise ConfigError(f"CompareConfig.sources: {self.sources!r}; at least one is needed, each once")


@dataclass(frozen=True)
class CompareResult:
    """Documents by source."""

    before: dict[str, int]
    """Contaminated in the first run."""
    after: dict[str, int]
    """In the second."""
    found: dict[str, int]
    """In the second alone."""
    lost: dict[str, int]
    """In the first alone."""
    other_benchmarks: dict[str, int]
    """In both, but for other benchmarks."""
    found_by_benchmark: dict[str, int]
    """Documents that a benchmark is found in by the second run, and was not by the first."""
    lost_by_benchmark: dict[str, int]
    """The reverse."""


@kind("decontaminate/compare", version=1)
def compare(config: CompareConfig, out: Out) -> CompareResult:
    """Writes what changed, in the order of sources and ids.

    Raises:
        StepFailed: a run has no such source.
    """
    rows, counts, gained, gone = [], {}, Counter(), Counter()
    for source in config.sources:
        before, after = (dict(_verdicts(path, source)) for path in (config.before, config.after))
        tally = Counter(before=len(before), after=len(after))
        for identifier in sorted(before.keys() | after.keys()):
            old, new = before.get(identifier), after.get(identifier)
            old_names, new_names = (set(row["benchmark"].split(",")) if row else set() for row in (old, new))
            if old_names == new_names:
                continue
            change = "found" if old is None else "lost" if new is None else "other benchmarks"
            tally[change] += 1
            gained.update(new_names - old_names)
            gone.update(old_names - new_names)
            columns = {
                f"{name}_{run}": row and row[name]
                for run, row in (("before", old), ("after", new))
                for name in _COLUMNS
            }
            rows.append({"source": source, "id": identifier, "change": change, **columns})
        counts[source] = tally
    write_table(out.file("changes.parquet"), pa.Table.from_pylist(rows, schema=_SCHEMA))

    def by_source(key: str) -> dict[str, int]:
        return {source: counts[source][key] for source in config.sources}

    return CompareResult(
        before=by_source("before"),
        after=by_source("after"),
        found=by_source("found"),
        lost=by_source("lost"),
        other_benchmarks=by_source("other benchmarks"),
        found_by_benchmark=dict(sorted(gained.items())),
        lost_by_benchmark=dict(sorted(gone.items())),
    )


def _verdicts(path: str, source: str) -> Iterator[tuple[str, dict]]:
    folder = f"{path}/{source}"
    for shard in shard_names(folder):
        for row in read_table(folder, shard, ["id", *_COLUMNS]).to_pylist():
            yield row["id"], row
