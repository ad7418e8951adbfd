"""mix/cells: applies every judgement, counts the funnel exactly, and writes what is kept by cell (topic x quality).

    cells/<cNNqQ>/part-NNNNN.parquet   documents data sets of what is kept, with the column `source`
    ledger.parquet                     one row a document that came in: fate, reason, cell (steps/mix/judgements.py)
    funnel.json                        documents and bytes, stage by stage, by source and by reason
    cube.json                          documents and bytes kept, by source, topic and quality bucket

This is the one place where documents are left out. Memory holds one shard of a source or one part of a cell, and the ledger
(about 100 bytes a document); kept text waits on the local disk (TMPDIR).
"""

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from marin_exec import InputPath, Out, StepFailed, kind
from steps.config_checks import check_number, check_sources
from steps.documents import NamedInput, shard_name, write_table
from steps.files import write_json
from steps.mix.judgements import FATES, KEPT, AttributePaths, first_reason, judge_shard, judged_shards
from steps.mix.kept_runs import KeptRuns


@dataclass(frozen=True, kw_only=True)
class CellsConfig:
    sources: tuple[NamedInput, ...]
    """Normalised documents data sets."""
    exact: InputPath
    """Sparse hits of dedup/exact."""
    fuzzy: InputPath
    """Sparse hits of dedup/fuzzy."""
    heuristics: InputPath
    """Dense decisions of quality/heuristics: keep, reasons."""
    contaminated: InputPath
    """Sparse hits of decontaminate/ngrams."""
    heldout: InputPath
    """Sparse ids that must not be trained on: `heldout / "table"`."""
    topics: InputPath
    """Dense topics of the cluster step: topic."""
    quality: InputPath
    """Dense scores of the quality step: bucket."""
    documents_per_shard: int = 50_000
    """Documents in each part of a cell."""

    def __post_init__(self) -> None:
        check_sources(self, "sources")
        check_number(self, "documents_per_shard", low=1)


@dataclass(frozen=True)
class CellsResult:
    documents_in: int
    bytes_in: int
    exact_duplicates: int
    fuzzy_duplicates: int
    dropped_by_heuristics: int
    contaminated: int
    held_out: int
    documents_kept: int
    bytes_kept: int
    cells: int
    documents_kept_by_source: dict[str, int]


@kind("mix/cells", version=1)
def documents_by_cell(config: CellsConfig, out: Out) -> CellsResult:
    """Writes kept documents by cell, the ledger, the funnel and the cube.

    Raises:
        StepFailed: a judgement is missing or does not match the documents, nothing is kept, or one text would be kept
            from two sources.
    """
    names = [source.name for source in config.sources]
    paths = AttributePaths(**{name: getattr(config, name) for name in AttributePaths.__dataclass_fields__})
    with tempfile.TemporaryDirectory(prefix="marin-cells-") as folder:
        runs = KeptRuns(Path(folder))
        ledger = _judge(config.sources, paths, runs, out)
        cells = _write_cells(runs, ledger, config.documents_per_shard, out)
    write_table(out.file("ledger.parquet"), ledger)
    funnel = funnel_counts(ledger, names)
    _write_json(out, "funnel.json", funnel)
    _write_json(out, "cube.json", cube_counts(ledger))
    gone = {each["stage"]: each["removed_documents"] for each in funnel["stages"]}
    return CellsResult(
        documents_in=funnel["documents_in"],
        bytes_in=funnel["bytes_in"],
        exact_duplicates=gone["exact_duplicate"],
        fuzzy_duplicates=gone["fuzzy_duplicate"],
        dropped_by_heuristics=gone["heuristics"],
        contaminated=gone["contaminated"],
        held_out=gone["held_out"],
        documents_kept=funnel["documents_kept"],
        bytes_kept=funnel["bytes_kept"],
        cells=cells,
        documents_kept_by_source={name: funnel["by_source"][name][KEPT]["documents"] for name in names},
    )


def _judge(sources: tuple[NamedInput, ...], paths: AttributePaths, runs: KeptRuns, out: Out) -> pa.Table:
    """Adds what is kept to `runs`; returns the ledger, sorted by id and source."""
    ledgers = []
    for source in sources:
        shards = judged_shards(source, paths)
        for done, shard in enumerate(shards):
            out.progress(f"judging {source.name}", done=done, total=len(shards))
            documents, ledger = judge_shard(source, shard, paths)
            ledgers.append(ledger)
            runs.add(_kept(documents, ledger))
    return pa.concat_tables(ledgers).sort_by([("id", "ascending"), ("source", "ascending")])


def _kept(documents: pa.Table, ledger: pa.Table) -> pa.Table:
    columns = documents.select(["id", "text", "source_id", "metadata"])
    for name in ("source", "cell", "fate"):
        columns = columns.append_column(name, ledger[name])
    return columns.filter(pc.field("fate") == KEPT).drop_columns(["fate"])


def _write_cells(runs: KeptRuns, ledger: pa.Table, documents_per_shard: int, out: Out) -> int:
    """Writes the parts of every cell; returns the number of cells."""
    kept = ledger.filter(pc.field("fate") == KEPT).select(["id", "source", "cell"])
    if not kept.num_rows:
        raise StepFailed(
            "no document is kept: the judgements are against every one; see the reasons in each judgement step"
        )
    _check_kept_once(kept)
    cells = sorted(kept["cell"].unique().to_pylist())
    for done, cell in enumerate(cells):
        out.progress("writing cells", done=done, total=len(cells))
        ids = kept.filter(pc.field("cell") == cell)["id"]
        for start in range(0, len(ids), documents_per_shard):
            last = min(start + documents_per_shard, len(ids)) - 1
            rows = runs.read(cell, ids[start].as_py(), ids[last].as_py())
            write_table(out.file(f"cells/{cell}/{shard_name(start // documents_per_shard)}"), rows)
    return len(cells)


def _check_kept_once(kept: pa.Table) -> None:
    """Checks that no id, of rows sorted by id, comes twice."""
    if len(kept["id"].unique()) == kept.num_rows:
        return
    twice = next(before for before, after in pairwise(kept["id"].to_pylist()) if before == after)
    names = kept.filter(pc.field("id") == twice)["source"].to_pylist()
    raise StepFailed(
        f"document {twice} would be kept from {names}: dedup/exact must run over all of the sources in one step"
    )


def funnel_counts(ledger: pa.Table, sources: list[str]) -> dict[str, Any]:
    """Returns documents and bytes by stage, by source and fate, and by first reason, exactly, as JSON values.

    Each stage has what it removed and what is left after it; what is left after the last is what is kept.
    """
    rows = _sums(ledger, ["source", "fate"])
    by_source = {source: {fate: {"documents": 0, "bytes": 0} for fate in FATES} for source in sources}
    for (source, fate), (documents, size) in rows.items():
        by_source[source][fate] = {"documents": documents, "bytes": size}
    total_documents, total_bytes = ledger.num_rows, sum(size for _, size in rows.values())
    left_documents, left_bytes, stages = total_documents, total_bytes, []
    for fate in FATES[:-1]:
        documents = sum(each[fate]["documents"] for each in by_source.values())
        size = sum(each[fate]["bytes"] for each in by_source.values())
        left_documents, left_bytes = left_documents - documents, left_bytes - size
        stages.append(
            {
                "stage": fate,
                "removed_documents": documents,
                "removed_bytes": size,
                "left_documents": left_documents,
                "left_bytes": left_bytes,
            }
        )
    by_reason: dict[str, dict[str, int]] = {fate: {} for fate in FATES[:-1]}
    for (fate, reason), (documents, _) in _sums(ledger, ["fate", "reason"]).items():
        if fate != KEPT:
            short = first_reason(fate, reason)
            by_reason[fate][short] = by_reason[fate].get(short, 0) + documents
    return {
        "documents_in": total_documents,
        "bytes_in": total_bytes,
        "stages": stages,
        "documents_kept": left_documents,
        "bytes_kept": left_bytes,
        "by_source": by_source,
        "by_reason": {fate: dict(sorted(reasons.items())) for fate, reasons in by_reason.items()},
    }


def cube_counts(ledger: pa.Table) -> list[dict[str, Any]]:
    """Returns one row for each source x topic x quality bucket that came in: documents and bytes in, and kept."""
    keys = ["source", "topic", "bucket"]
    came = _sums(ledger, keys)
    kept = _sums(ledger.filter(pc.field("fate") == KEPT), keys)
    return [
        {
            **dict(zip(keys, key, strict=True)),
            "documents_in": documents,
            "bytes_in": size,
            "documents_kept": kept.get(key, (0, 0))[0],
            "bytes_kept": kept.get(key, (0, 0))[1],
        }
        for key, (documents, size) in sorted(came.items())
    ]


def _sums(ledger: pa.Table, keys: list[str]) -> dict[tuple, tuple[int, int]]:
    table = ledger.group_by(keys).aggregate([("bytes", "count"), ("bytes", "sum")])
    columns = [table[key].to_pylist() for key in keys]
    counts = zip(table["bytes_count"].to_pylist(), table["bytes_sum"].to_pylist(), strict=True)
    return dict(zip(zip(*columns, strict=True), counts, strict=True))


def _write_json(out: Out, name: str, value: Any) -> None:
    write_json(out.file(name), value)
