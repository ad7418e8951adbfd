"""Small documents data sets, and benchmarks over them, for the tests of these stages."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from steps.decontaminate.benchmarks import DocumentsBenchmark
from steps.decontaminate.ngrams import DecontaminateConfig, DecontaminateResult, find_contaminated
from steps.documents import NamedInput, document_id, read_table, shard_name, shard_names, write_table
from tests.directory_out import DirectoryOut


def write_documents(root: Path, name: str, texts: Iterable[str], num_shards: int = 1) -> NamedInput:
    """Writes a documents data set under `root/name`, cut into `num_shards` runs of ids."""
    rows = sorted({document_id(text): text for text in texts}.items())
    path = root / name
    path.mkdir(parents=True, exist_ok=True)
    per_shard = -(-len(rows) // num_shards) or 1
    for shard in range(num_shards):
        chosen = rows[shard * per_shard : (shard + 1) * per_shard]
        columns = {
            "id": [identifier for identifier, _ in chosen],
            "text": [text for _, text in chosen],
            "source_id": [f"{name}/{identifier[:6]}" for identifier, _ in chosen],
            "metadata": ["{}" for _ in chosen],
        }
        write_table(
            str(path / shard_name(shard)),
            pa.table({key: pa.array(values, pa.string()) for key, values in columns.items()}),
        )
    return NamedInput(name=name, path=str(path))


def read_sparse(folder: str | Path, source: NamedInput) -> dict[str, dict]:
    """Returns the rows of a sparse table by id; its shards must be those of the documents."""
    table = f"{folder}/{source.name}"
    assert shard_names(table) == shard_names(source.path)
    return {row["id"]: row for shard in shard_names(table) for row in read_table(table, shard).to_pylist()}


def suite(root: Path, name: str, texts: Iterable[str], **options) -> DocumentsBenchmark:
    """Writes a benchmark whose records are `texts`."""
    return DocumentsBenchmark(name=name, path=write_documents(root / "benchmarks", name, texts).path, **options)


def decontaminate(
    root: Path, sources: list[NamedInput], benchmarks: list[DocumentsBenchmark], **options
) -> tuple[DecontaminateResult, dict[str, dict[str, dict]]]:
    """Runs the step without package benchmarks unless they are given; returns its result and the hits by source and "
    "id."""
    root.mkdir(parents=True, exist_ok=True)
    options.setdefault("package_benchmarks", ())
    config = DecontaminateConfig(sources=tuple(sources), documents_benchmarks=tuple(benchmarks), **options)
    out = DirectoryOut(root)
    result = find_contaminated(config, out)
    return result, {source.name: read_sparse(root, source) for source in sources}
