"""What the decontamination step writes besides its matches: the sparse tables, and evidence to read."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from marin_exec import Out
from steps.decontaminate.features import FeatureIndex, extract_features
from steps.decontaminate.judge import Frequencies, Verdict
from steps.documents import NamedInput, read_table, write_table
from steps.files import write_bytes
from steps.seeded_ranks import choice_rank


def write_verdicts(source: NamedInput, shard: str, verdicts: list[Verdict], out: Out) -> list[tuple[str, Verdict]]:
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


def write_frequencies(index: FeatureIndex, frequencies: Frequencies, out: Out) -> None:
    """Writes features.parquet (all that were met) and boilerplate.parquet (those dropped, with their text)."""

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
    columns["text"] = pa.array(index.excerpts(dropped.tolist()), pa.string())
    write_table(out.file("evidence/boilerplate.parquet"), pa.table(columns))


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
            _sample(index, source, read_table(paths[source], shard, ["id", "text", "source_id"]), verdict)
            for _, _, source, shard, verdict in chosen
        ]
    write_bytes(out.file("flagged_samples.json"), json.dumps(samples, indent=1, ensure_ascii=False).encode())


def _sample(index: FeatureIndex, source: str, shard: pa.Table, verdict: Verdict) -> dict:
    features = extract_features([shard["text"][verdict.row].as_py()], index.ngram_words, index.shortest_words)
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
