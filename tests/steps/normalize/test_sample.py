"""Samples of documents: the right number, whole documents, the same whatever the shards."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.contract import document_shards, read_all_documents, read_documents
from steps.documents import DOCUMENT_SCHEMA, read_all, write_table
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.normalize.sample import SampleConfig, sample_documents
from steps.sources.raw import RawDocument, write_raw
from tests.directory_out import DirectoryOut


def documents(folder, texts, per_shard: int) -> str:
    raw = DirectoryOut(folder / "raw")
    write_raw(raw.file("raw-00000.parquet"), [RawDocument(str(i), text, "{}") for i, text in enumerate(texts)])
    out = DirectoryOut(folder / f"documents-{per_shard}")
    normalize(NormalizeConfig(source=raw.path, documents_per_shard=per_shard), out)
    return out.path


def ids(path: str) -> list[str]:
    return read_all(path, ["id"])["id"].to_pylist()


@settings(max_examples=25)
@given(
    texts=st.sets(st.integers(0, 10_000).map("text {}".format), min_size=1, max_size=40),
    fraction=st.floats(0.01, 1),
    shards=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_sample_is_the_same_whatever_the_shards(tmp_path_factory, texts, fraction, shards):
    folder = tmp_path_factory.mktemp("sample")
    found = []
    for per_shard in shards:
        out = DirectoryOut(folder / f"out-{per_shard}")
        config = SampleConfig(
            documents=documents(folder, sorted(texts), per_shard), fraction=fraction, documents_per_shard=4
        )
        result = sample_documents(config, out)
        found.append(ids(out.path))
        assert result.documents == len(found[-1]) == max(1, round(fraction * len(texts)))
        assert result.num_bytes == sum(len(text) for text in read_all_documents(out.path)["text"].to_pylist())
        sizes = [read_documents(out.path, shard).num_rows for shard in document_shards(out.path)]
        assert all(size == 4 for size in sizes[:-1]) and 1 <= sizes[-1] <= 4
    assert found[0] == found[1] == sorted(found[0])


def test_sample_of_copies_in_two_sources_is_of_the_same_texts(tmp_path):
    texts = [f"text {i}" for i in range(200)]
    outs = []
    for name in "ab":
        out = DirectoryOut(tmp_path / name / "out")
        sample_documents(SampleConfig(documents=documents(tmp_path / name, texts, 50), fraction=0.1), out)
        outs.append(ids(out.path))
    assert outs[0] == outs[1]
    other = DirectoryOut(tmp_path / "other")
    sample_documents(SampleConfig(documents=str(tmp_path / "a/documents-50"), fraction=0.1, seed=1), other)
    assert set(ids(other.path)) != set(outs[0])


def test_sample_fraction_out_of_range_is_refused():
    for fraction in (0, 1.5):
        with pytest.raises(ConfigError, match=r"SampleConfig\.fraction"):
            SampleConfig(documents="x", fraction=fraction)


def test_sample_of_shards_without_rows_is_what_the_others_give(tmp_path):
    path = documents(tmp_path, [f"text {number}" for number in range(9)], 3)
    whole = DirectoryOut(tmp_path / "whole")
    sample_documents(SampleConfig(documents=path, fraction=0.5), whole)
    write_table(f"{path}/part-00003.parquet", DOCUMENT_SCHEMA.empty_table())
    again = DirectoryOut(tmp_path / "again")
    result = sample_documents(SampleConfig(documents=path, fraction=0.5), again)
    assert ids(again.path) == ids(whole.path) and result.documents == len(ids(whole.path))
    (tmp_path / "none").mkdir()
    write_table(str(tmp_path / "none" / "part-00000.parquet"), DOCUMENT_SCHEMA.empty_table())
    assert sample_documents(SampleConfig(documents=str(tmp_path / "none"), fraction=0.5), again).documents == 0
