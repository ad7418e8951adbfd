from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from marin_exec import ConfigError, StepFailed
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, read_all, shard_name, write_table
from steps.embed.documents import EmbedConfig, embed_documents
from steps.embed.encoders import StaticTable, encode
from steps.embed.vectors import read_source, write_array
from tests.directory_out import DirectoryOut

TEXTS = [f"document {number} about {topic}" for number, topic in enumerate(["tables", "licences", "arrays"] * 3)]


def write_documents(directory, texts, per_shard):
    rows = sorted((document_id(text), text) for text in texts)
    directory.mkdir(parents=True)
    for start in range(0, len(rows), per_shard):
        ids, chosen = zip(*rows[start : start + per_shard], strict=True)
        count = len(ids)
        columns = [list(ids), list(chosen), ["x"] * count, ["{}"] * count]
        table = pa.table(dict(zip(DOCUMENT_SCHEMA.names, columns, strict=True)), schema=DOCUMENT_SCHEMA)
        write_table(str(directory / shard_name(start // per_shard)), table)
    return str(directory)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table"
    path.mkdir()
    write_array(str(path / "table.npy"), np.random.default_rng(0).normal(size=(30_522, 12)).astype(np.float16))
    return str(path)


def test_embed_writes_a_dense_table_beside_every_shard(tmp_path, table):
    sources = (
        NamedInput(name="one", path=write_documents(tmp_path / "one", TEXTS[:5], 2)),
        NamedInput(name="two", path=write_documents(tmp_path / "two", TEXTS[5:], 9)),
    )
    out = DirectoryOut(tmp_path / "out")
    result = embed_documents(EmbedConfig(sources=sources, encoder=StaticTable(table=table)), out)
    for source in sources:
        ids, vectors = read_source(f"{out.path}/{source.name}")
        assert ids == read_all(source.path, columns=["id"])["id"].to_pylist()
        assert vectors.shape == (len(ids), 12)
    assert result.documents_by_source == {"one": 5, "two": 4} and result.documents == 9
    assert result.dimensions == 12 and result.scale == 0.75 / 127
    assert result.min_cosine > 0.99


def test_embed_twice_gives_equal_bytes(tmp_path, table):
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", TEXTS, 4)),)
    written = []
    for name in "ab":
        embed_documents(EmbedConfig(sources=sources, encoder=StaticTable(table=table)), DirectoryOut(tmp_path / name))
        written.append({each.name: each.read_bytes() for each in (tmp_path / name / "one").iterdir()})
    assert written[0] == written[1] and len(written[0]) == 3


def test_embed_range_too_small_is_counted(tmp_path, table):
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", TEXTS, 9)),)
    config = EmbedConfig(sources=sources, encoder=StaticTable(table=table, int8_range=0.05))
    assert embed_documents(config, DirectoryOut(tmp_path / "out")).clipped_fraction > 0.5


def test_embed_range_too_large_is_an_error_and_not_a_zero_vector(tmp_path, table):
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", TEXTS, 9)),)
    config = EmbedConfig(sources=sources, encoder=StaticTable(table=table, int8_range=500.0))
    with pytest.raises(StepFailed, match=r"one/part-00000.parquet: .* int8_range 500.0 is too large"):
        embed_documents(config, DirectoryOut(tmp_path / "out"))


def test_embed_in_small_batches_writes_the_same_bytes_and_figures(tmp_path, table, monkeypatch):
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", TEXTS, 9)),)
    config = EmbedConfig(sources=sources, encoder=StaticTable(table=table))
    results = [embed_documents(config, DirectoryOut(tmp_path / "whole"))]
    monkeypatch.setattr("steps.embed.documents._BATCH_DOCUMENTS", 2)
    results.append(embed_documents(config, DirectoryOut(tmp_path / "batches")))
    assert replace(results[0], seconds=0) == replace(results[1], seconds=0)
    one, two = ((tmp_path / each / "one/part-00000.parquet").read_bytes() for each in ("whole", "batches"))
    assert one == two


def test_embed_figures_are_those_of_the_vectors(tmp_path, table):
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", TEXTS, 4)),)
    encoder = StaticTable(table=table, int8_range=0.4)
    result = embed_documents(EmbedConfig(sources=sources, encoder=encoder), DirectoryOut(tmp_path / "out"))
    exact = encode(encoder, read_all(sources[0].path)["text"].to_pylist())
    stored = read_source(str(tmp_path / "out/one"))[1]
    cosines = (exact * stored).sum(axis=1)
    assert result.mean_cosine == pytest.approx(cosines.mean(), abs=1e-5)
    assert result.min_cosine == pytest.approx(cosines.min(), abs=1e-5)
    assert result.clipped_fraction == pytest.approx((np.abs(exact) > 0.4).mean()) and result.clipped_fraction > 0


def test_embed_document_without_tokens_gets_a_vector_and_stops_nothing(tmp_path, table):
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", ["\u200b\u200b", "a word"], 9)),)
    embed_documents(EmbedConfig(sources=sources, encoder=StaticTable(table=table)), DirectoryOut(tmp_path / "out"))
    _, vectors = read_source(str(tmp_path / "out/one"))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_embed_table_with_a_nan_is_an_error_that_names_it(tmp_path, table):
    write_array(f"{table}/table.npy", np.full((30_522, 12), np.nan, dtype=np.float16))
    sources = (NamedInput(name="one", path=write_documents(tmp_path / "one", ["a word"], 9)),)
    with pytest.raises(StepFailed, match="zero or not finite"):
        embed_documents(EmbedConfig(sources=sources, encoder=StaticTable(table=table)), DirectoryOut(tmp_path / "out"))


def test_embed_no_sources_or_two_of_one_name_are_refused(tmp_path, table):
    twice = (NamedInput(name="one", path="x"), NamedInput(name="one", path="y"))
    for sources in ((), twice):
        with pytest.raises(ConfigError, match=r"of its own|is empty"):
            embed_documents(EmbedConfig(sources=sources, encoder=StaticTable(table=table)), DirectoryOut(tmp_path))
