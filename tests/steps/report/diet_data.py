"""Outputs of all data stages over a few hostile documents, made once a process, and the data-diet page over them."""

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from steps.dedup.audit import _SCHEMA as AUDIT_SCHEMA
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, read_table, shard_name, write_table
from steps.mix.cells import CellsConfig, documents_by_cell
from steps.mix.weights import Phase, Proportional, WeightsConfig, mixture_weights
from steps.report.data_diet import DataDietConfig, DataDietResult, data_diet
from steps.sources.cards import SourceCard
from steps.tokenize.store import CellEntry, TokenIndex, documents_file, write_index
from tests.directory_out import DirectoryOut

SHARD = shard_name(0)
HOSTILE = (
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    "</pre></main></style><!-- ]]> {{ 7 * 7 }} {% raw %}",
    "right to left \u202e gpj.exe and zero\u200bwidth \u2066 inside",
    "write to jane.doe@example.com or call +1 (555) 123-4567, version 10.0.19041.1234 of 2026-12-01",
    "one line of a megabyte " + "x" * 1_000_000,
)
SECRET = "the secret that only mails hold"
SOURCES = ("prose", "mail", "uncarded")
CARDS = (
    SourceCard(name="prose", kind="help", languages=("en",), origin="a <test>", licence="CC-0", limits="Made up."),
    SourceCard(name="mail", kind="mail", languages=("en",), origin="a test", licence="none", limits="Real people.", show=False),
)  # fmt: skip
TEXT, REAL = pa.string(), pa.float64()
PARTED = "A text that was copied with one word changed stands here in full, and ends so."


def _write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(str(path), pa.Table.from_pylist(rows, schema=schema))


def _documents(folder: Path, source: str) -> list[dict[str, str]]:
    texts = [f"{source} document {n} with words to be read. " * (1 + n % 9) for n in range(60)]
    texts += [f"{source}: {text}" for text in HOSTILE]
    texts += [f"{source} {PARTED}", f"{source} {PARTED.replace('copied', 'borrowed')}"]
    if source != "prose":
        texts = [f"{text} {SECRET}" for text in texts]
    rows = [
        {"id": document_id(t), "text": t, "source_id": f"{source}/{n}", "metadata": "{}"} for n, t in enumerate(texts)
    ]
    rows.sort(key=lambda row: row["id"])
    _write(folder / "documents" / source / SHARD, rows, DOCUMENT_SCHEMA)
    return rows


def _judgements(folder: Path, documents: dict[str, list[dict[str, str]]]) -> None:
    pairs, flagged, rules = [], [], []
    for source, rows in documents.items():
        kept = next(row for row in rows if "copied with" in row["text"])
        gone = next(row for row in rows if "borrowed with" in row["text"])
        evidence = {"kept_source": source, "kept_id": kept["id"], "containment": 0.9, "jaccard": 0.8}
        schema = [("id", TEXT), ("kept_source", TEXT), ("kept_id", TEXT), ("containment", REAL), ("jaccard", REAL)]
        _write(folder / "fuzzy" / source / SHARD, [{"id": gone["id"], **evidence}], pa.schema(schema))
        pairs.append(
            {
                "verdict": "removed",
                "source": source,
                "id": gone["id"],
                "num_words": 15,
                "kept_num_words": 15,
                "num_novel_words": 1,
                "novel_words": ["borrowed"],
                "excerpt": gone["text"],
                "kept_excerpt": kept["text"],
                **evidence,
            }
        )
        _write(folder / "exact" / source / SHARD, [], pa.schema([("id", TEXT), ("kept_source", TEXT)]))
        broken = next(row for row in rows if "document 1 with" in row["text"])
        kept_flags = [
            {"id": row["id"], "keep": row is not broken, "reasons": "" if row is not broken else "gopher_words: 7 < 50"}
            for row in rows
        ]
        _write(
            folder / "rules" / source / SHARD,
            kept_flags,
            pa.schema([("id", TEXT), ("keep", pa.bool_()), ("reasons", TEXT)]),
        )
        rules.append({**_place(source, broken), "reasons": "gopher_words: 7 < 50", "text": broken["text"][:600]})
        hit = next(row for row in rows if "document 2 with" in row["text"])
        schema = [("id", TEXT), ("benchmark", TEXT), ("max_overlap", pa.float32()), ("coverage", pa.float32())]
        row = {"id": hit["id"], "benchmark": "exam<b>", "max_overlap": 1.0, "coverage": 0.9}
        _write(folder / "overlap" / source / SHARD, [row], pa.schema(schema))
        passage = {"text": hit["text"], "marks": [[0, 5]], "cut": False}
        flagged.append(
            {
                **_place(source, hit),
                "benchmarks": ["exam<b>"],
                "example": "exam/1",
                "max_overlap": 1.0,
                "coverage": 0.9,
                "num_hits": 3,
                "matched_text": hit["text"],
                "paragraph": passage,
                "item": passage,
            }
        )
        _write(folder / "heldout" / source / SHARD, [], pa.schema([("id", TEXT)]))
        topics = [{"id": row["id"], "topic": n % 2} for n, row in enumerate(rows)]
        _write(folder / "topics" / source / SHARD, topics, pa.schema([("id", TEXT), ("topic", pa.int16())]))
        buckets = [{"id": row["id"], "bucket": n % 5} for n, row in enumerate(rows)]
        _write(folder / "quality" / source / SHARD, buckets, pa.schema([("id", TEXT), ("bucket", pa.int8())]))
    _write(folder / "fuzzy" / "audit.parquet", pairs, AUDIT_SCHEMA)
    listed = [
        {
            "topic": n,
            "name": name,
            "terms": name.split("-"),
            "documents": 10,
            "documents_by_source": {},
            "clusters": [n],
        }
        for n, name in enumerate(("shape-<i>axis</i>", "path-file"))
    ]
    for name, value in {
        "topics/topics.json": {"cluster_sample_documents": [1], "topics": listed},
        "rules/samples.json": {"gopher_words": rules},
        "overlap/flagged_samples.json": {"exam<b>": flagged},
        "overlap/counts.json": {"contaminated_by_benchmark": {"exam<b>": 3, "other": 0}},
    }.items():
        (folder / name).write_text(json.dumps(value))
    items = [{"benchmark": "exam<b>", "item": "exam/1", "documents": 3, "best_coverage": 0.9}]
    schema = pa.schema(
        [("benchmark", TEXT), ("item", TEXT), ("documents", pa.int64()), ("best_coverage", pa.float32())]
    )
    _write(folder / "overlap" / "hits_by_item.parquet", items, schema)


def _place(source: str, row: dict[str, str]) -> dict[str, Any]:
    return {"id": row["id"], "source": source, "source_id": row["source_id"], "characters": len(row["text"])}


def write_token_store(folder: Path) -> None:
    """A token a byte, so that what the page says can be worked out from the texts."""
    entries = []
    for path in sorted((folder / "cells" / "cells").iterdir()):
        table = read_table(str(path), SHARD, ["id", "text"])
        sizes = [len(text.encode()) for text in table["text"].to_pylist()]
        columns = {
            "id": table["id"],
            "num_tokens": pa.array(sizes, pa.int64()),
            "num_bytes": pa.array(sizes, pa.int64()),
        }
        target = folder / "tokens" / documents_file(path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_table(str(target), pa.table(columns))
        entries.append(CellEntry(name=path.name, tokens=sum(sizes), documents=len(sizes), bytes=sum(sizes), digest="0"))
    index = TokenIndex(
        begin_token=0, end_token=None, vocabulary_size=2048, tokenizer_digest="0", split="train", cells=tuple(entries)
    )
    write_index(str(folder / "tokens" / "index.json"), index)


@functools.cache
def diet_inputs() -> tuple[Path, dict[str, Any]]:
    """Returns the folder and the config's inputs."""
    keep = tempfile.TemporaryDirectory(prefix="diet-")
    diet_inputs.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    folder = Path(keep.name)
    documents = {source: _documents(folder, source) for source in SOURCES}
    _judgements(folder, documents)
    sources = tuple(NamedInput(name=name, path=str(folder / "documents" / name)) for name in SOURCES)
    paths = {
        name: str(folder / where)
        for name, where in {
            "exact": "exact", "fuzzy": "fuzzy", "heuristics": "rules", "contaminated": "overlap", "heldout": "heldout",
            "topics": "topics", "quality": "quality",
        }.items()
    }  # fmt: skip
    documents_by_cell(CellsConfig(sources=sources, **paths), DirectoryOut(folder / "cells"))
    write_token_store(folder)
    phases = (Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=2.0), start_fraction=0.8))
    weights = WeightsConfig(
        tokens=str(folder / "tokens"),
        sequence_length=64,
        phases=phases,
        budgets_tokens=(500_000, 1_000_000),
        block_sequences=256,
    )
    mixture_weights(weights, DirectoryOut(folder / "mixture"))
    given = {name: paths[name] for name in ("topics", "fuzzy", "heuristics", "contaminated")}
    ours = {"cells": str(folder / "cells"), "tokens": str(folder / "tokens"), "mixture": str(folder / "mixture")}
    return folder, {"sources": sources, "cards": CARDS, **given, **ours}


@functools.cache
def diet_page(samples_per_cell: int = 2) -> tuple[Path, DataDietResult]:
    """Returns the page's folder and its result."""
    folder, inputs = diet_inputs()
    config = DataDietConfig(title="A <diet> & its page", samples_per_cell=samples_per_cell, **inputs)
    target = folder / f"page-{samples_per_cell}"
    return target, data_diet(config, DirectoryOut(target))
