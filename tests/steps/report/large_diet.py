"""Outputs of all data stages over many documents in many cells, and nothing removed, for the limits of the data-diet page."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from steps.dedup.audit import _SCHEMA as AUDIT_SCHEMA
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, shard_name, write_table
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from tests.directory_out import DirectoryOut
from tests.steps.report.diet_data import CARDS, write_token_store

BUCKETS = 5
SHARD = shard_name(0)


def _table(folder: Path, name: str, columns: dict[str, Any]) -> None:
    path = folder / name / "prose" / SHARD
    path.parent.mkdir(parents=True)
    write_table(str(path), pa.table(columns))


def large_diet(folder: Path, cells: int, documents: int) -> dict[str, Any]:
    """Returns the inputs of a `DataDietConfig`: `cells` a multiple of 5, `documents` at least as many."""
    num_topics = cells // BUCKETS
    texts = sorted((f"document {n} of many" for n in range(documents)), key=document_id)
    ids = pa.array([document_id(text) for text in texts])
    names = pa.array([f"prose/{n}" for n in range(documents)])
    written = pa.table([ids, pa.array(texts), names, pa.array(["{}"] * documents)], schema=DOCUMENT_SCHEMA)
    _table(folder, "documents", {name: written[name] for name in written.column_names})
    none = pa.array([], pa.string())
    for name in ("exact", "heldout"):
        _table(folder, name, {"id": none, "kept_source": none})
    _table(folder, "fuzzy", {"id": none, "kept_source": none, "kept_id": none, "containment": none.cast(pa.float64())})
    shares = pa.array([], pa.float32())
    _table(folder, "overlap", {"id": none, "benchmark": none, "max_overlap": shares, "coverage": shares})
    _table(folder, "rules", {"id": ids, "keep": pa.array([True] * documents), "reasons": pa.array([""] * documents)})
    _table(folder, "topics", {"id": ids, "topic": pa.array([n % num_topics for n in range(documents)], pa.int16())})
    buckets = pa.array([n // num_topics % BUCKETS for n in range(documents)], pa.int8())
    _table(folder, "quality", {"id": ids, "bucket": buckets})
    topics = [{"topic": n, "name": f"topic-{n}", "terms": [f"word{n}"], "documents": 1} for n in range(num_topics)]
    for name, value in {
        "topics/topics.json": {"topics": topics},
        "rules/samples.json": {},
        "overlap/flagged_samples.json": {},
        "overlap/counts.json": {"contaminated_by_benchmark": {"exam": 0}},
    }.items():
        (folder / name).write_text(json.dumps(value))
    items = {"benchmark": none, "item": none, "documents": none.cast(pa.int64()), "best_coverage": shares}
    write_table(str(folder / "overlap" / "hits_by_item.parquet"), pa.table(items))
    write_table(str(folder / "fuzzy" / "audit.parquet"), AUDIT_SCHEMA.empty_table())

    sources = (NamedInput(name="prose", path=str(folder / "documents" / "prose")),)
    judged = {
        name: str(folder / where)
        for name, where in {
            "exact": "exact", "fuzzy": "fuzzy", "heuristics": "rules", "contaminated": "overlap", "heldout": "heldout",
            "topics": "topics", "quality": "quality",
        }.items()
    }  # fmt: skip
    documents_by_cell(CellsConfig(sources=sources, **judged), DirectoryOut(folder / "cells"))
    write_token_store(folder)
    weights = WeightsConfig(
        tokens=str(folder / "tokens"),
        sequence_length=8,
        phases=(Phase(rule=Proportional()),),
        budgets_tokens=(8 * 32_768,),
        block_sequences=32_768,
        over_cap="water_fill",
    )
    mixture_weights(weights, DirectoryOut(folder / "mixture"))
    given = {name: judged[name] for name in ("topics", "fuzzy", "heuristics", "contaminated")}
    ours = {name: str(folder / name) for name in ("cells", "tokens", "mixture")}
    return {"sources": sources, "cards": CARDS, **given, **ours}
