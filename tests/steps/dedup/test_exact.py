"""Exact deduplication across sources."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, read_all, shard_names, write_table
from tests.directory_out import DirectoryOut
from tests.steps.dedup.dedup_corpus import write_documents


def run_exact(folder, *sources):
    out = DirectoryOut(folder)
    result = exact_duplicates(ExactConfig(sources=sources), out)
    return result, {s.name: read_all(f"{out.path}/{s.name}").to_pylist() for s in sources}, out


def test_exact_keeps_the_copy_of_the_earlier_source(tmp_path):
    first = write_documents(tmp_path / "first", ["shared by all", "one"], num_shards=2)
    second = write_documents(tmp_path / "second", ["shared by all", "shared late", "two"])
    third = write_documents(tmp_path / "third", ["shared late", "shared by all", "three"])
    result, tables, out = run_exact(tmp_path / "out", first, second, third)
    assert tables["first"] == []
    assert tables["second"] == [{"id": document_id("shared by all"), "kept_source": "first"}]
    late, by_all = document_id("shared late"), document_id("shared by all")
    assert {row["id"]: row["kept_source"] for row in tables["third"]} == {late: "second", by_all: "first"}
    assert result.documents_in == 8 and result.removed == 3
    assert result.documents_in_by_source == {"first": 2, "second": 3, "third": 3}
    assert result.removed_by_source == {"first": 0, "second": 1, "third": 2}
    assert result.kept_by_source == {"first": 2, "second": 1, "third": 0}
    assert shard_names(f"{out.path}/first") == shard_names(first.path)


def test_exact_priority_is_the_order_given(tmp_path):
    first = write_documents(tmp_path / "a", ["the same text"])
    second = write_documents(tmp_path / "b", ["the same text"])
    _, tables, _ = run_exact(tmp_path / "out", second, first)
    assert tables["b"] == [] and [row["kept_source"] for row in tables["a"]] == ["b"]


@settings(max_examples=25)
@given(st.lists(st.sets(st.integers(0, 12)), min_size=1, max_size=4), st.integers(1, 3))
def test_exact_leaves_each_text_once_and_a_second_pass_removes_nothing(tmp_path_factory, members, num_shards):
    folder = tmp_path_factory.mktemp("exact")
    texts = [[f"text {i}" for i in each] for each in members]
    sources = [write_documents(folder / f"s{i}", each, num_shards) for i, each in enumerate(texts)]
    _, tables, _ = run_exact(folder / "out", *sources)
    survivors = []
    for each, source in zip(texts, sources, strict=True):
        hits = {row["id"] for row in tables[source.name]}
        survivors.append([text for text in each if document_id(text) not in hits])
    flat = [text for each in survivors for text in each]
    assert sorted(flat) == sorted({text for each in texts for text in each})
    again = [write_documents(folder / f"again{i}", each) for i, each in enumerate(survivors)]
    result, _, _ = run_exact(folder / "out2", *again)
    assert result.removed == 0


def test_exact_bytes_do_not_depend_on_a_rerun(tmp_path):
    sources = [write_documents(tmp_path / name, ["x y z", name]) for name in ("a", "b")]
    for run in ("one", "two"):
        run_exact(tmp_path / run, *sources)
    file = "b/part-00000.parquet"
    assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def write_ids(path, *shards):
    path.mkdir()
    for number, ids in enumerate(shards):
        blanks = pa.array(["x"] * len(ids), pa.string())
        columns = [pa.array(ids, pa.string()), blanks, blanks, blanks]
        write_table(str(path / f"part-{number:05d}.parquet"), pa.table(columns, schema=DOCUMENT_SCHEMA))
    return NamedInput(name=path.name, path=str(path))


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ([["0" * 31 + "2", "0" * 31 + "1"]], "not sorted and unique"),
        ([["0" * 32, "0" * 32]], "not sorted and unique"),
        ([["0" * 32], ["0" * 32]], "in one shard only"),
        ([["my-own-id"]], "32 hex digits"),
        ([["z" * 32]], "32 hex digits"),
    ],
)
def test_exact_of_documents_that_bypassed_normalize_fails(tmp_path, shards, message):
    with pytest.raises(StepFailed, match=message):
        run_exact(tmp_path / "out", write_ids(tmp_path / "raw", *shards))


def test_exact_without_an_id_column_names_the_columns(tmp_path):
    (tmp_path / "raw").mkdir()
    write_table(str(tmp_path / "raw" / "part-00000.parquet"), pa.table({"text": ["a"]}))
    with pytest.raises(StepFailed, match=r"column 'id' is missing; it has \['text'\]"):
        run_exact(tmp_path / "out", NamedInput(name="raw", path=str(tmp_path / "raw")))


def test_exact_without_sources_or_with_a_repeated_name_is_refused():
    with pytest.raises(ConfigError, match="sources is empty"):
        ExactConfig(sources=())
    source = NamedInput(name="code", path="somewhere")
    with pytest.raises(ConfigError, match=r"\['code'\] more than once"):
        ExactConfig(sources=(source, source))
