"""Contract of documents and attribute tables."""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import StepFailed
from steps.contract import read_all_documents
from steps.documents import (
    DOCUMENT_SCHEMA,
    document_id,
    join_dense,
    read_all,
    read_table,
    shard_name,
    shard_names,
    sparse_rows,
    write_table,
)


def documents(*texts: str) -> pa.Table:
    rows = sorted((document_id(text), text) for text in texts)
    columns = [[row[0] for row in rows], [row[1] for row in rows], ["f.txt"] * len(rows), ["{}"] * len(rows)]
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=DOCUMENT_SCHEMA)


def test_document_id_known_texts_has_golden_value():
    # The published value of XXH3-128 of no bytes, most significant half first.
    assert document_id("") == "99aa06d3014798d86001c324468d497f"
    assert document_id("größe") == xxhash.xxh3_128("größe".encode()).hexdigest()


def test_shard_names_unordered_directory_gives_natural_order(tmp_path):
    for index in (100_000, 2, 99_999, 10):
        write_table(str(tmp_path / shard_name(index)), documents("a"))
    (tmp_path / "removed.parquet").write_bytes(b"")
    assert shard_names(str(tmp_path)) == [shard_name(index) for index in (2, 10, 99_999, 100_000)]


@pytest.mark.parametrize("sub_path", ["", "nowhere"])
def test_shard_names_without_shards_says_what_is_there(tmp_path, sub_path):
    (tmp_path / "code").mkdir()
    with pytest.raises(StepFailed, match=r"no part-\*\.parquet"):
        shard_names(str(tmp_path / sub_path))


def test_read_all_memory_filesystem_gives_what_was_written():
    table = documents("one", "two", "three")
    write_table("memory://contract/a/part-00000.parquet", table.slice(0, 2))
    write_table("memory://contract/a/part-00001.parquet", table.slice(2))
    assert read_all("memory://contract/a").equals(table)
    assert read_all("memory://contract/a", ["id"]).column_names == ["id"]


def test_read_table_missing_column_names_those_there(tmp_path):
    write_table(str(tmp_path / shard_name(0)), documents("a"))
    with pytest.raises(StepFailed, match=r"no column \['score'\].*source_id"):
        read_table(str(tmp_path), shard_name(0), ["id", "score"])


def test_read_table_shard_that_other_side_lacks_is_an_error(tmp_path):
    write_table(str(tmp_path / shard_name(0)), documents("a"))
    with pytest.raises(StepFailed, match="same shard names"):
        read_table(str(tmp_path), shard_name(1))


@pytest.mark.parametrize("kept_bytes", [0, 10, -1])
def test_read_table_truncated_file_is_found_out(tmp_path, kept_bytes):
    path = tmp_path / shard_name(0)
    write_table(str(path), documents("a", "b"))
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(StepFailed, match="not a complete Parquet file"):
        read_table(str(tmp_path), shard_name(0))


@settings(deadline=None)
@given(texts=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=30, unique=True), cut=st.integers(0, 30))
def test_write_table_other_chunks_gives_same_bytes(tmp_path_factory, texts, cut):
    folder = tmp_path_factory.mktemp("bytes")
    table = documents(*texts)
    write_table(str(folder / "whole"), table)
    write_table(str(folder / "pieces"), pa.concat_tables([table.slice(0, cut), table.slice(cut)]))
    digests = {hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("whole", "pieces")}
    assert len(digests) == 1
    assert pq.read_table(folder / "pieces").equals(table)


def test_read_table_damaged_bytes_are_an_error_that_names_the_shard(tmp_path):
    """Some of it pyarrow reports as a failed read of the disk, without a name."""
    write_table(str(tmp_path / "part-00000.parquet"), documents(*map(str, range(40))))
    whole = (tmp_path / "part-00000.parquet").read_bytes()
    for place in range(0, len(whole), 41):
        (tmp_path / "part-00000.parquet").write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            read_all_documents(str(tmp_path))
        except StepFailed as error:
            assert "part-00000.parquet" in str(error)
    (tmp_path / "part-00000.parquet").unlink()
    (tmp_path / "part-00000.parquet").mkdir()
    with pytest.raises(IsADirectoryError):
        read_table(str(tmp_path), "part-00000.parquet")


def test_join_dense_same_ids_adds_columns():
    table = documents("a", "b")
    joined = join_dense(table, pa.table({"id": table["id"], "score": pa.array([0.5, 1.5], pa.float32())}))
    assert joined.column_names == [*DOCUMENT_SCHEMA.names, "score"]
    assert joined["score"].to_pylist() == [0.5, 1.5]


def test_join_dense_no_rows_is_fine():
    table = documents("a").slice(0, 0)
    assert join_dense(table, pa.table({"id": table["id"], "score": pa.array([], pa.float32())})).num_rows == 0


@pytest.mark.parametrize(
    "change", [lambda t: t.take([1, 0]), lambda t: t.slice(0, 1), lambda t: pa.concat_tables([t, t])]
)
def test_join_dense_other_rows_is_an_error(change):
    table = documents("a", "b")
    with pytest.raises(StepFailed, match="made from other documents"):
        join_dense(table, change(table.select(["id"])), "quality/code")


@pytest.mark.parametrize(
    "written",
    [
        lambda ids: ids.cast(pa.large_string()),
        lambda ids: ids.cast(pa.string_view()),
        lambda ids: ids.dictionary_encode(),
        lambda ids: ids.cast(pa.large_string()).dictionary_encode(),
    ],
)
def test_join_dense_ids_of_any_string_type_are_the_documents(written):
    """Polars writes large strings, pandas categories as dictionaries: the ids are the same, or differ with a place."""
    table = documents("a", "b", "c")
    ids = table["id"].combine_chunks()

    def attributes(ids: pa.Array) -> pa.Table:
        return pa.table({"id": written(ids), "score": [1, 2, 3]})

    joined = join_dense(table, attributes(ids))
    assert joined["id"].equals(table["id"]) and joined["score"].to_pylist() == [1, 2, 3]
    with pytest.raises(StepFailed, match="row 0 is for document"):
        join_dense(table, attributes(ids[::-1]))


def test_join_dense_ids_that_are_no_strings_are_refused():
    with pytest.raises(StepFailed, match="quality/code: column 'id' has type int64"):
        join_dense(documents("a"), pa.table({"id": [1], "score": [1]}), "quality/code")


def test_join_dense_column_in_both_is_an_error():
    table = documents("a")
    with pytest.raises(StepFailed, match="'text' is in the documents too"):
        join_dense(table, table)


def test_sparse_rows_are_the_hits_documents_in_the_order_of_the_hits():
    assert sparse_rows(["a", "b", "c"], pa.table({"id": ["c", "a"]}), "x") == [2, 0]
    assert sparse_rows(["a"], pa.table({"id": pa.array([], pa.string())}), "x") == []


@pytest.mark.parametrize(
    ("hits", "message"), [(["b", "z"], "hit on document z, .* made from other documents"), (["b", "b"], "named twice")]
)
def test_sparse_rows_of_strangers_or_twice_are_refused(hits, message):
    with pytest.raises(StepFailed, match=f"fuzzy/part-00000: .*{message}"):
        sparse_rows(["a", "b"], pa.table({"id": hits}), "fuzzy/part-00000")
