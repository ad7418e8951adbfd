import dataclasses
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.contract import check_documents
from steps.documents import NamedInput, document_id, read_all, read_table, write_table
from steps.mix.cells import CellsConfig, documents_by_cell
from tests.directory_out import DirectoryOut

STRINGS = {"kept_source", "kept_id", "benchmark", "reasons"}


class World:
    """Documents of two sources in two shards each, and every judgement on them as plain dicts by text."""

    def __init__(self, path: Path):
        self.path = path
        self.texts = {"code": [f"code text {i}" for i in range(20)], "docs": [f"docs text {i}" for i in range(12)]}
        self.exact: dict[str, str] = {}
        self.fuzzy: dict[str, tuple] = {}
        self.bad: dict[str, str] = {}
        self.contaminated: dict[str, tuple] = {}
        self.heldout: set[str] = set()
        self.topic: dict[str, int] = {}
        self.bucket: dict[str, int] = {}

    def write(self) -> CellsConfig:
        tables = ("exact", "fuzzy", "heuristics", "contaminated", "heldout", "topics", "quality")
        for source, texts in self.texts.items():
            rows = sorted((document_id(text), text) for text in texts)
            half = (len(rows) + 1) // 2
            for shard, some in enumerate((rows[:half], rows[half:])):
                self._write_shard(source, f"part-{shard:05d}.parquet", some)
        sources = tuple(NamedInput(name=name, path=str(self.path / "documents" / name)) for name in self.texts)
        return CellsConfig(sources=sources, **{name: str(self.path / name) for name in tables})

    def _write_shard(self, source: str, shard: str, rows: list[tuple[str, str]]) -> None:
        ids, texts = [i for i, _ in rows], [text for _, text in rows]

        def write(table: str, columns: dict[str, list], types: dict[str, pa.DataType]) -> None:
            target = self.path / table / source
            target.mkdir(parents=True, exist_ok=True)
            arrays = {name: pa.array(columns[name], type) for name, type in {"id": pa.string(), **types}.items()}
            write_table(str(target / shard), pa.table(arrays))

        text = pa.string()
        write(
            "documents",
            {"id": ids, "text": texts, "source_id": [f"f/{t}" for t in texts], "metadata": ["{}"] * len(ids)},
            {"text": text, "source_id": text, "metadata": text},
        )
        hits = [t for t in texts if t in self.exact]
        write(
            "exact",
            {"id": [document_id(t) for t in hits], "kept_source": [self.exact[t] for t in hits]},
            {"kept_source": text},
        )
        hits = [t for t in texts if t in self.fuzzy]
        write(
            "fuzzy",
            {
                "id": [document_id(t) for t in hits],
                "kept_source": [self.fuzzy[t][0] for t in hits],
                "kept_id": [self.fuzzy[t][1] for t in hits],
                "containment": [self.fuzzy[t][2] for t in hits],
                "jaccard": [0.5] * len(hits),
            },
            {"kept_source": text, "kept_id": text, "containment": pa.float32(), "jaccard": pa.float32()},
        )
        write(
            "heuristics",
            {"id": ids, "keep": [t not in self.bad for t in texts], "reasons": [self.bad.get(t, "") for t in texts]},
            {"keep": pa.bool_(), "reasons": text},
        )
        hits = [t for t in texts if t in self.contaminated]
        write(
            "contaminated",
            {
                "id": [document_id(t) for t in hits],
                "benchmark": [self.contaminated[t][0] for t in hits],
                "max_overlap": [self.contaminated[t][1] for t in hits],
            },
            {"benchmark": text, "max_overlap": pa.float32()},
        )
        write("heldout", {"id": [document_id(t) for t in texts if t in self.heldout]}, {})
        write("topics", {"id": ids, "topic": [self.topic.get(t, 3) for t in texts]}, {"topic": pa.int16()})
        write("quality", {"id": ids, "bucket": [self.bucket.get(t, 2) for t in texts]}, {"bucket": pa.int8()})


@pytest.fixture
def world(tmp_path) -> World:
    world = World(tmp_path / "in")
    world.exact = {"docs text 0": "code"}
    world.fuzzy = {"docs text 0": ("code", "0" * 32, 0.99), "docs text 1": ("docs", "1" * 32, 0.95)}
    world.bad = {"docs text 1": "gopher_words: 3 < 50", "code text 4": "c4_braces: 1 > 0,gopher_words: 3 < 50"}
    world.contaminated = {"code text 4": ("humaneval/prompt", 1.0), "code text 5": ("human eval", 0.75)}
    world.heldout = {"code text 5", "code text 6", "docs text 7"}
    world.topic = {f"code text {i}": i % 2 for i in range(20)}
    world.bucket = {f"docs text {i}": i % 5 for i in range(12)}
    return world


def test_cells_first_judgement_is_the_reason(world, tmp_path):
    result = documents_by_cell(world.write(), DirectoryOut(tmp_path / "out"))
    ledger = {(row["source"], row["id"]): row for row in pq.read_table(tmp_path / "out/ledger.parquet").to_pylist()}
    expected = {
        "docs text 0": ("exact_duplicate", "code"),  # a fuzzy duplicate as well
        "docs text 1": ("fuzzy_duplicate", f"docs {'1' * 32} containment=0.950"),  # and bad as well
        "code text 4": ("heuristics", "c4_braces: 1 > 0,gopher_words: 3 < 50"),  # and contaminated as well
        "code text 5": ("contaminated", "human eval max_overlap=0.750"),  # and held out as well
        "code text 6": ("held_out", ""),
        "docs text 7": ("held_out", ""),
    }
    for source, texts in world.texts.items():
        for text in texts:
            row = ledger[source, document_id(text)]
            assert (row["fate"], row["reason"]) == expected.get(text, ("kept", ""))
            assert row["bytes"] == len(text)
            topic, bucket = world.topic.get(text, 3), world.bucket.get(text, 2)
            assert row["cell"] == ("" if text in expected else f"c{topic:02d}q{bucket}")
    assert dataclasses.asdict(result) == {
        "documents_in": 32,
        "bytes_in": sum(len(t) for texts in world.texts.values() for t in texts),
        "exact_duplicates": 1,
        "fuzzy_duplicates": 1,
        "dropped_by_heuristics": 1,
        "contaminated": 1,
        "held_out": 2,
        "documents_kept": 26,
        "bytes_kept": sum(len(t) for texts in world.texts.values() for t in texts if t not in expected),
        "cells": 7,
        "documents_kept_by_source": {"code": 17, "docs": 9},
    }


def test_cells_hold_exactly_what_the_ledger_keeps(world, tmp_path):
    documents_by_cell(dataclasses.replace(world.write(), documents_per_shard=4), DirectoryOut(tmp_path / "out"))
    ledger = pq.read_table(tmp_path / "out/ledger.parquet").to_pylist()
    kept = {(row["cell"], row["source"], row["id"]) for row in ledger if row["fate"] == "kept"}
    found = set()
    for cell in (tmp_path / "out/cells").iterdir():
        table = read_all(str(cell))
        check_documents(table, cell.name)
        assert table.column_names == ["id", "text", "source_id", "metadata", "source"]
        found |= {(cell.name, row["source"], row["id"]) for row in table.to_pylist()}
        assert all(row["source_id"] == f"f/{row['text']}" for row in table.to_pylist())
    assert found == kept
    shards = [read_table(str(tmp_path / "out/cells/c01q2"), f"part-0000{i}.parquet").num_rows for i in range(3)]
    assert shards == [4, 4, 1]


def test_cells_funnel_and_cube_add_up(world, tmp_path):
    documents_by_cell(world.write(), DirectoryOut(tmp_path / "out"))
    funnel = json.loads((tmp_path / "out/funnel.json").read_text())
    assert funnel["by_reason"] == {
        "exact_duplicate": {"code": 1},
        "fuzzy_duplicate": {"docs": 1},
        "heuristics": {"c4_braces": 1},
        "contaminated": {"human eval": 1},
        "held_out": {"held_out": 2},
    }
    check_funnel(funnel)
    cube = json.loads((tmp_path / "out/cube.json").read_text())
    assert sum(row["documents_in"] for row in cube) == 32 and sum(row["documents_kept"] for row in cube) == 26
    assert sum(row["bytes_kept"] for row in cube) == funnel["bytes_kept"]
    code = [row for row in cube if row["source"] == "code"]
    assert [(row["topic"], row["bucket"], row["documents_in"], row["documents_kept"]) for row in code] == [
        (0, 2, 10, 8),
        (1, 2, 10, 9),
    ]


def check_funnel(funnel: dict) -> None:
    for unit in ("documents", "bytes"):
        left = funnel[f"{unit}_in"]
        for stage in funnel["stages"]:
            left -= stage[f"removed_{unit}"]
            assert stage[f"left_{unit}"] == left
        assert left == funnel[f"{unit}_kept"]
        by_source = [fate[unit] for source in funnel["by_source"].values() for fate in source.values()]
        assert sum(by_source) == funnel[f"{unit}_in"]


@given(data=st.data())
@settings(max_examples=15)
def test_cells_any_judgements_give_each_document_one_fate(tmp_path_factory, data):
    world = World(tmp_path_factory.mktemp("world"))
    texts = [text for some in world.texts.values() for text in some]
    some = st.sets(st.sampled_from(texts))
    world.exact = dict.fromkeys(data.draw(some), "code")
    world.fuzzy = dict.fromkeys(data.draw(some), ("code", "0" * 32, 0.9))
    world.bad = dict.fromkeys(data.draw(some), "rule: 1 > 0")
    world.contaminated = dict.fromkeys(data.draw(some), ("suite", 0.5))
    world.heldout = data.draw(some)
    judged = [world.exact, world.fuzzy, world.bad, world.contaminated, world.heldout]
    names = ["exact_duplicate", "fuzzy_duplicate", "heuristics", "contaminated", "held_out"]
    fates = Counter(next((n for n, hits in zip(names, judged, strict=True) if t in hits), "kept") for t in texts)
    out = world.path / "out"
    config = world.write()
    if not fates["kept"]:
        with pytest.raises(StepFailed, match="no document is kept"):
            documents_by_cell(config, DirectoryOut(out))
        return
    documents_by_cell(config, DirectoryOut(out))
    funnel = json.loads((out / "funnel.json").read_text())
    check_funnel(funnel)
    assert {stage["stage"]: stage["removed_documents"] for stage in funnel["stages"]} == {n: fates[n] for n in names}


def rewrite(path: Path, change) -> None:
    write_table(str(path), change(pq.read_table(path)))


FIRST = "part-00000.parquet"


def retyped(table: pa.Table, column: str, type: pa.DataType) -> pa.Table:
    """A table as another program may write it: the text "false" counts as true, and a bucket 3.0 names a cell c00q3.0."""
    return table.set_column(table.column_names.index(column), column, table[column].cast(type))


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("topics", lambda t: t.slice(1), "rows for"),
        ("quality", lambda t: t.take(list(range(t.num_rows))[::-1]), "row 0 is for document"),
        ("heuristics", lambda t: t.drop_columns(["reasons"]), "no column"),
        ("topics", lambda t: t.set_column(1, "topic", pa.array([-1] * t.num_rows, pa.int16())), "topic -1 in row 0"),
        ("quality", lambda t: t.set_column(1, "bucket", pa.array([5] * t.num_rows, pa.int8())), "bucket 5 in row 0"),
        ("quality", lambda t: t.set_column(1, "bucket", pa.array([None] * t.num_rows, pa.int8())), "nulls"),
        ("quality", lambda t: retyped(t, "bucket", pa.float64()), "'bucket' has type double; integer values"),
        ("quality", lambda t: retyped(t, "bucket", pa.bool_()), "'bucket' has type bool; integer values"),
        ("topics", lambda t: retyped(t, "topic", pa.string()), "'topic' has type string; integer values"),
        ("heuristics", lambda t: retyped(t, "keep", pa.string()), "'keep' has type string; boolean values"),
        ("heuristics", lambda t: retyped(t, "keep", pa.int8()), "'keep' has type int8; boolean values"),
        ("heldout", lambda t: pa.table({"id": ["f" * 32]}), "not among the documents of that shard"),
        ("documents", lambda t: t.take(list(range(t.num_rows))[::-1]), "not sorted and unique"),
    ],
)
def test_cells_table_that_does_not_match_is_an_error(world, tmp_path, table, change, message):
    config = world.write()
    rewrite(world.path / table / "code" / FIRST, change)
    with pytest.raises(StepFailed, match=message):
        documents_by_cell(config, DirectoryOut(tmp_path / "out"))


@pytest.mark.parametrize(
    "table", ["exact", "fuzzy", "heuristics", "contaminated", "heldout", "topics", "quality", "documents"]
)
def test_cells_missing_shard_of_any_table_is_an_error(world, tmp_path, table):
    """A table that is not there must never read as one without hits."""
    config = world.write()
    (world.path / table / "docs" / FIRST).unlink()
    with pytest.raises(StepFailed, match="same shards"):
        documents_by_cell(config, DirectoryOut(tmp_path / "out"))


def test_cells_hit_named_twice_is_an_error(world, tmp_path):
    config = world.write()
    rewrite(world.path / "contaminated/code" / FIRST, lambda t: pa.concat_tables([t, t]))
    rewrite(world.path / "contaminated/code/part-00001.parquet", lambda t: pa.concat_tables([t, t]))
    with pytest.raises(StepFailed, match="named twice"):
        documents_by_cell(config, DirectoryOut(tmp_path / "out"))


def test_cells_text_kept_from_two_sources_is_an_error(world, tmp_path):
    world.texts["docs"].append("code text 9")
    with pytest.raises(StepFailed, match=r"would be kept from \['code', 'docs'\]"):
        documents_by_cell(world.write(), DirectoryOut(tmp_path / "out"))


def test_cells_exact_duplicate_in_two_sources_is_kept_once(world, tmp_path):
    world.texts["docs"].append("code text 9")
    config = world.write()
    shards = sorted((world.path / "exact/docs").iterdir())
    hit = document_id("code text 9")
    for shard in shards:  # the copy in docs alone is judged; the one in code has the same id and stays
        ids = pq.read_table(world.path / "documents/docs" / shard.name)["id"].to_pylist()
        if hit in ids:
            rewrite(shard, lambda t: pa.concat_tables([t, pa.table({"id": [hit], "kept_source": ["code"]})]))
    documents_by_cell(config, DirectoryOut(tmp_path / "out"))
    rows = [r for r in pq.read_table(tmp_path / "out/ledger.parquet").to_pylist() if r["id"] == hit]
    assert [(row["source"], row["fate"]) for row in rows] == [("code", "kept"), ("docs", "exact_duplicate")]


def test_cells_funnel_counts_duplicates_by_the_whole_name_of_a_source(world, tmp_path):
    names = {"code": "my code", "docs": "docs (2026)"}
    world.texts = {names[source]: texts for source, texts in world.texts.items()}
    world.exact = {"docs text 0": "my code"}
    world.fuzzy = {"docs text 1": ("docs (2026)", "1" * 32, 0.95), "docs text 2": ("my code", "0" * 32, 0.9)}
    documents_by_cell(world.write(), DirectoryOut(tmp_path / "out"))
    by_reason = json.loads((tmp_path / "out/funnel.json").read_text())["by_reason"]
    assert by_reason["exact_duplicate"] == {"my code": 1}
    assert by_reason["fuzzy_duplicate"] == {"docs (2026)": 1, "my code": 1}


def test_cells_sources_of_one_name_are_refused(world, tmp_path):
    config = world.write()
    with pytest.raises(ConfigError, match="a name of its own"):
        documents_by_cell(dataclasses.replace(config, sources=config.sources[:1] * 2), DirectoryOut(tmp_path / "out"))


def test_cells_same_input_gives_the_same_bytes(world, tmp_path):
    config = world.write()
    for name in ("a", "b"):
        documents_by_cell(config, DirectoryOut(tmp_path / name))
    files = [file.relative_to(tmp_path / "a") for file in (tmp_path / "a").rglob("*") if file.is_file()]
    assert len(files) == 10
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)
