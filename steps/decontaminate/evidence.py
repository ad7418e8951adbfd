"""What the decontamination step writes besides its matches: the sparse tables, and evidence to read."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from marin_exec import Out
from steps.decontaminate.index import FeatureIndex
from steps.decontaminate.judge import Frequencies, Held, Verdict
from steps.decontaminate.passages import side_by_side
from steps.documents import NamedInput, read_table, write_table
from steps.files import write_bytes
from steps.seeded_ranks import choice_rank

_ITEMS_SCHEMA = pa.schema(
    [
        ("benchmark", pa.string()),
        ("item", pa.string()),
        ("documents", pa.int64()),
        ("most_hits", pa.int64()),
        ("best_coverage", pa.float32()),
    ]
)
_SAMPLE_CHARACTERS = 2_000
"""Of a document's paragraph and of an item, at most."""


def write_verdicts(source: NamedInput, shard: str, verdicts: list[Verdict], out: Out) -> list[tuple[str, Verdict]]:
    """Writes the sparse table of a shard; returns its verdicts by document id."""
    ids = read_table(source.path, shard, ["id"])["id"].to_pylist()
    found = [(ids[verdict.row], verdict) for verdict in verdicts]
    table = {
        "id": pa.array([identifier for identifier, _ in found], pa.string()),
        "benchmark": pa.array([",".join(verdict.benchmarks) for _, verdict in found], pa.string()),
        "max_overlap": pa.array([verdict.max_overlap for _, verdict in found], pa.float32()),
        "coverage": pa.array([verdict.coverage for _, verdict in found], pa.float32()),
        "num_hits": pa.array([verdict.num_hits for _, verdict in found], pa.int32()),
        "example": pa.array([verdict.example for _, verdict in found], pa.string()),
    }
    write_table(out.file(f"{source.name}/{shard}"), pa.table(table))
    return found


def write_frequencies(index: FeatureIndex, frequencies: Frequencies, out: Out) -> None:
    """Writes features.parquet (all that were met) and boilerplate.parquet (those dropped, with their text)."""

    def table(chosen: np.ndarray) -> dict[str, pa.Array]:
        features = frequencies.features[chosen]
        records = [[f"{r.benchmark}:{r.name}" for r in index.records_of(int(feature))] for feature in features]
        columns = {"feature": pa.array(index.hashes[features]), "records": pa.array(records, pa.list_(pa.string()))}
        for number, source in enumerate(frequencies.sources):
            columns[f"documents:{source}"] = pa.array(frequencies.documents[number][chosen])
        return columns

    write_table(out.file("evidence/features.parquet"), pa.table(table(np.arange(len(frequencies.features)))))
    dropped = np.flatnonzero(frequencies.in_source.any(axis=0))
    columns = table(dropped)
    columns["everywhere"] = pa.array(frequencies.everywhere[dropped])
    columns["text"] = pa.array(index.excerpts(frequencies.features[dropped].tolist()), pa.string())
    write_table(out.file("evidence/boilerplate.parquet"), pa.table(columns))


def write_items_hit(index: FeatureIndex, verdicts: Sequence[Verdict], out: Out) -> None:
    """Writes hits_by_item.parquet: every item that contaminated documents have features of, the most in one document first."""
    held: dict[int, list[Held]] = {}
    for verdict in verdicts:
        for record, each in verdict.records.items():
            held.setdefault(record, []).append(each)
    rows = [
        {
            "benchmark": index.records[record].benchmark,
            "item": index.records[record].name,
            "documents": len(documents),
            "most_hits": max(each.hits for each in documents),
            "best_coverage": max(each.coverage for each in documents),
        }
        for record, documents in sorted(held.items())
    ]
    rows.sort(key=lambda row: (-row["most_hits"], row["benchmark"], row["item"]))
    write_table(out.file("hits_by_item.parquet"), pa.Table.from_pylist(rows, schema=_ITEMS_SCHEMA))


def write_samples(
    index: FeatureIndex,
    sources: Sequence[NamedInput],
    verdicts: dict[tuple[str, str], list[tuple[str, Verdict]]],
    count: int,
    seed: int,
    out: Out,
) -> None:
    """Writes a seeded choice of up to `count` contaminated documents a benchmark, each with its worst paragraph."""
    by_benchmark: dict[str, list[tuple[int, str, str, str, Verdict]]] = {}
    for (source, shard), found in verdicts.items():
        for identifier, verdict in found:
            rank = choice_rank(seed, identifier)
            for benchmark in verdict.benchmarks:
                by_benchmark.setdefault(benchmark, []).append((rank, identifier, source, shard, verdict))
    paths = {source.name: source.path for source in sources}
    samples = {}
    for benchmark in sorted(by_benchmark):
        chosen = sorted(by_benchmark[benchmark], key=lambda member: member[:4])[:count]
        samples[benchmark] = [
            _sample(index, source, read_table(paths[source], shard, ["id", "text", "source_id"]), verdict, benchmark)
            for _, _, source, shard, verdict in chosen
        ]
    write_bytes(out.file("flagged_samples.json"), json.dumps(samples, indent=1, ensure_ascii=False).encode())


def _sample(index: FeatureIndex, source: str, shard: pa.Table, verdict: Verdict, benchmark: str) -> dict:
    text = shard["text"][verdict.row].as_py()
    mine = [record for record in verdict.records if index.records[record].benchmark == benchmark]
    best = min(mine, key=lambda record: (record != verdict.record, -verdict.records[record].hits, record))
    document, item, matched = side_by_side(index, text, verdict.paragraph, best, _SAMPLE_CHARACTERS)
    return {
        "id": shard["id"][verdict.row].as_py(),
        "source": source,
        "source_id": shard["source_id"][verdict.row].as_py(),
        "benchmarks": list(verdict.benchmarks),
        "example": f"{benchmark}:{index.records[best].name}",
        "max_overlap": round(verdict.max_overlap, 4),
        "coverage": round(verdict.records[best].coverage, 4),
        "num_hits": verdict.num_hits,
        "matched_text": matched[:1000],
        "paragraph": document,
        "item": item,
    }
