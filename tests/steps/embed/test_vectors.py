import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import StepFailed
from steps.documents import write_table
from steps.embed.vectors import (
    embedding_table,
    quantize,
    read_array,
    read_shard,
    scale_in,
    scale_of,
    vectors_of,
    write_array,
)


@given(st.integers(0, 2**32 - 1), st.integers(2, 48))
def test_quantize_entries_inside_the_range_are_off_by_half_a_step_at_most(seed, dimensions):
    vectors = np.random.default_rng(seed).uniform(-0.3, 0.3, (5, dimensions))
    restored = quantize(vectors, 0.3) * scale_of(0.3)
    assert np.abs(restored - vectors).max() <= scale_of(0.3) / 2 + 1e-9


def test_quantize_entries_outside_the_range_are_clipped_and_never_wrap():
    np.testing.assert_array_equal(quantize(np.array([[9.0, -9.0, 0.3, -0.3]]), 0.3), [[127, -127, 127, -127]])


def test_embedding_table_written_and_read_gives_unit_vectors_close_to_the_originals(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(7, 64))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = [f"{row:032x}" for row in range(7)]
    table = embedding_table(ids, quantize(vectors, 0.5), scale_of(0.5))
    assert table.schema.field("embedding").type == pa.list_(pa.int8(), 64)
    write_table(str(tmp_path / "part-00000.parquet"), table)
    found_ids, found = read_shard(str(tmp_path), "part-00000.parquet")
    assert found_ids == ids
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert (found * vectors).sum(axis=1).min() > 0.998


def test_scale_survives_the_file_exactly(tmp_path):
    table = embedding_table(["a"], np.zeros((1, 2), dtype=np.int8), scale_of(0.3))
    assert scale_in(table, "here") == 0.3 / 127


def test_slice_of_a_table_reads_its_own_rows():
    table = embedding_table(list("abcd"), np.diag([1, 2, 3, 4]).astype(np.int8), 1.0)
    np.testing.assert_array_equal(vectors_of(table.slice(2, 1), "slice"), [[0, 0, 1, 0]])


def test_table_without_a_scale_is_refused():
    with pytest.raises(StepFailed, match="here: no embedding column"):
        vectors_of(pa.table({"id": ["a"]}), "here")


def test_array_with_pickled_objects_is_refused(tmp_path):
    np.save(tmp_path / "bad.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickle"):
        read_array(str(tmp_path / "bad.npy"))


def test_array_written_twice_has_equal_bytes(tmp_path):
    for name in "ab":
        write_array(str(tmp_path / name), np.arange(5.0))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
