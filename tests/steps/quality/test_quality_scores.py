import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from marin_exec import ConfigError, StepFailed
from steps.documents import NamedInput, read_all
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.scores import ScoresConfig, scores
from tests.directory_out import DirectoryOut
from tests.steps.embed.test_embed_documents import write_documents
from tests.steps.quality.quality_corpus import WORDS, text_of, write_corpus, write_embeddings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus")
    sources = write_corpus(path)
    embeddings, labels = str(path / "embeddings"), str(path / "labels")
    config = ClassifierConfig(
        documents=sources, embeddings=embeddings, labels=labels, num_folds=5, num_resamples=5, min_labels_per_type=30
    )
    classifier(config, DirectoryOut(path / "classifier"))
    return ScoresConfig(documents=sources, embeddings=embeddings, classifier=str(path / "classifier"))


def test_scores_are_dense_typed_and_follow_the_quality_within_each_type(tmp_path, trained):
    out = DirectoryOut(tmp_path)
    result = scores(trained, out)
    for source in trained.documents:
        documents, table = read_all(source.path), read_all(f"{out.path}/{source.name}")
        assert table.column_names == ["id", "score", "bucket", "content_type"]
        assert table.schema.types == [pa.string(), pa.float32(), pa.int8(), pa.string()]
        assert table["id"].to_pylist() == documents["id"].to_pylist()
        truth = [next(s for s, words in WORDS.items() if words in text) for text in documents["text"].to_pylist()]
        found = table["score"].to_numpy()
        means = [found[np.array(truth) == score].mean() for score in WORDS]
        assert (np.diff(means) > 0).all()
        expected = np.floor(found.astype(np.float64) * 5 + 1e-7).clip(0, 4)
        np.testing.assert_array_equal(table["bucket"].to_numpy(), expected)
    assert result.documents == 120 and result.uninformative_sources == ()
    assert sum(result.bucket_shares.values()) == pytest.approx(1, abs=1e-3)
    for spread in (*result.spread_by_type.values(), *result.spread_by_source.values()):
        assert spread > 0.15  # the score chooses within each type, it is not the type's name
    assert max(result.mean_by_type.values()) - min(result.mean_by_type.values()) < 0.15


def test_scores_twice_give_equal_bytes(tmp_path, trained):
    for name in "ab":
        scores(trained, DirectoryOut(tmp_path / name))
    files = [each.relative_to(tmp_path / "a") for each in (tmp_path / "a").rglob("*.parquet")]
    assert files and all((tmp_path / "a" / each).read_bytes() == (tmp_path / "b" / each).read_bytes() for each in files)


def test_scores_do_not_depend_on_how_documents_lie_in_shards(tmp_path, trained):
    sources = []
    for source in trained.documents:
        texts = read_all(source.path)["text"].to_pylist()
        sources.append(NamedInput(name=source.name, path=write_documents(tmp_path / "d" / source.name, texts, 7)))
        write_embeddings(tmp_path / "e" / source.name, sources[-1].path)
    one, two = DirectoryOut(tmp_path / "one"), DirectoryOut(tmp_path / "two")
    before = scores(trained, one)
    after = scores(replace(trained, documents=tuple(sources), embeddings=str(tmp_path / "e")), two)
    for source in sources:
        assert read_all(f"{one.path}/{source.name}").equals(read_all(f"{two.path}/{source.name}"))
    assert (tmp_path / "one/histograms.json").read_bytes() == (tmp_path / "two/histograms.json").read_bytes()
    assert replace(before, seconds=0.0) == replace(after, seconds=0.0)


def test_histograms_count_every_document_by_source_and_type(tmp_path, trained):
    out = DirectoryOut(tmp_path)
    result = scores(trained, out)
    found = json.loads((tmp_path / "histograms.json").read_text())
    assert set(found) == {source.name for source in trained.documents}
    for name, by_type in found.items():
        table = read_all(f"{out.path}/{name}")
        assert {kind: sum(bins) for kind, bins in by_type.items()} == Counter(table["content_type"].to_pylist())
        counts = np.sum(list(by_type.values()), axis=0).reshape(5, 4).sum(axis=1) / table.num_rows
        np.testing.assert_allclose(counts, list(result.bucket_shares_by_source[name].values()), atol=1e-4)


def test_source_whose_scores_do_not_vary_is_named(tmp_path, trained):
    texts = [text_of("code", 3, 1) + f" v{number}" for number in range(12)]
    flat = NamedInput(name="flat", path=write_documents(tmp_path / "flat", texts, 25))
    (tmp_path / "embeddings").mkdir()
    for source in trained.documents:
        (tmp_path / "embeddings" / source.name).symlink_to(f"{trained.embeddings}/{source.name}")
    write_embeddings(tmp_path / "embeddings/flat", flat.path)
    config = replace(
        trained, documents=(*trained.documents, flat), embeddings=str(tmp_path / "embeddings"), min_spread=0.15
    )
    assert scores(config, DirectoryOut(tmp_path / "out")).uninformative_sources == ("flat",)


@pytest.mark.parametrize("changes", [{"dimensions": 9}, {"int8_range": 0.5}])
def test_scores_embeddings_of_another_encoder_are_refused(tmp_path, trained, changes):
    for source in trained.documents:
        write_embeddings(tmp_path / source.name, source.path, **changes)
    with pytest.raises(StepFailed, match="the student was fitted on 8"):
        scores(replace(trained, embeddings=str(tmp_path)), DirectoryOut(tmp_path / "out"))


def test_scores_two_sources_of_one_name_are_refused(tmp_path, trained):
    with pytest.raises(ConfigError, match="name of its own"):
        scores(replace(trained, documents=trained.documents[:1] * 2), DirectoryOut(tmp_path))
