import json

import numpy as np
import pyarrow as pa
import pytest

from marin_exec import ConfigError, StepFailed
from steps.cluster.topics import TopicsConfig, topics
from steps.documents import NamedInput, read_all, read_table, shard_names, write_table
from steps.embed.vectors import embedding_table, quantize, read_array, scale_of
from tests.directory_out import DirectoryOut
from tests.steps.embed.test_embed_documents import write_documents

SUBJECTS = ("matrix eigenvalue solver", "licence warranty liability", "socket server request", "poem river mountain")


def vector_for(text, rng):
    """A vector near its subject's axis, with a large part that all documents share, as real embeddings have."""
    subject = next(place for place, words in enumerate(SUBJECTS) if words in text)
    vector = 0.2 * rng.normal(size=16) + 2.0 * np.eye(16)[15]
    vector[subject] += 1.5
    return vector / np.linalg.norm(vector)


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(0)
    sources = []
    for name, subjects in (("one", (0, 1)), ("two", (2, 3)), ("three", (0, 3))):
        texts = [f"{SUBJECTS[subject]} number {number} of {name}" for subject in subjects for number in range(30)]
        path = write_documents(tmp_path / "documents" / name, texts, 25)
        sources.append(NamedInput(name=name, path=path))
        (tmp_path / "embeddings" / name).mkdir(parents=True)
        for shard in shard_names(path):
            table = read_table(path, shard)
            vectors = np.stack([vector_for(text, rng) for text in table["text"].to_pylist()])
            embedded = embedding_table(table["id"].to_pylist(), quantize(vectors, 1.0), scale_of(1.0))
            write_table(str(tmp_path / "embeddings" / name / shard), embedded)
    return TopicsConfig(
        documents=tuple(sources),
        embeddings=str(tmp_path / "embeddings"),
        num_clusters=12,
        num_topics=4,
        min_topic_fraction=0.05,
    )


def changed(config, **changes):
    return TopicsConfig(**{**{name: getattr(config, name) for name in config.__dataclass_fields__}, **changes})


def test_topics_are_the_subjects_and_are_named_by_their_words(tmp_path, corpus):
    out = DirectoryOut(tmp_path / "out")
    result = topics(corpus, out)
    pairs = set()
    for source in corpus.documents:
        texts, table = read_all(source.path)["text"].to_pylist(), read_all(f"{out.path}/{source.name}")
        assert table.schema.types == [pa.string(), pa.int32(), pa.int16()]
        for text, topic in zip(texts, table["topic"].to_pylist(), strict=True):
            pairs.add((next(place for place, words in enumerate(SUBJECTS) if words in text), topic))
    assert len(pairs) == 4
    assert sorted(sorted(name.split("-")) for name in result.topic_documents) == sorted(
        sorted(words.split()) for words in SUBJECTS
    )
    assert result.documents == sum(result.topic_documents.values()) == 180


def test_topics_json_agrees_with_the_tables(tmp_path, corpus):
    out = DirectoryOut(tmp_path / "out")
    topics(corpus, out)
    rows = json.loads((tmp_path / "out/topics.json").read_text())["topics"]
    tables = {source.name: read_all(f"{out.path}/{source.name}") for source in corpus.documents}
    for row in rows:
        counted = {name: table["topic"].to_pylist().count(row["topic"]) for name, table in tables.items()}
        assert row["documents_by_source"] == counted
    lookup = {cluster: row["topic"] for row in rows for cluster in row["clusters"]}
    assert sorted(lookup) == list(range(12))
    np.testing.assert_array_equal(
        read_array(f"{out.path}/model/cluster_topics.npy"), [lookup[each] for each in range(12)]
    )
    for table in tables.values():
        assert [lookup[each] for each in table["cluster"].to_pylist()] == table["topic"].to_pylist()


def test_topics_twice_give_equal_bytes(tmp_path, corpus):
    for name in "ab":
        topics(corpus, DirectoryOut(tmp_path / name))
    files = [sorted(each.relative_to(tmp_path / name) for each in (tmp_path / name).rglob("*.*")) for name in "ab"]
    assert files[0] == files[1] and len(files[0]) > 6
    assert all((tmp_path / "a" / each).read_bytes() == (tmp_path / "b" / each).read_bytes() for each in files[0])


def test_topics_from_a_sample_still_assign_every_document(tmp_path, corpus):
    result = topics(changed(corpus, sample_documents=60, num_clusters=6), DirectoryOut(tmp_path / "out"))
    assert (result.sample, result.documents) == (60, 180)


def test_topics_embeddings_of_other_documents_are_refused(tmp_path, corpus):
    _, two, three = corpus.documents
    mixed = (NamedInput(name="one", path=two.path), two, three)
    with pytest.raises(StepFailed, match="other documents"):
        topics(changed(corpus, documents=mixed), DirectoryOut(tmp_path / "out"))


def test_topics_more_clusters_than_documents_are_refused(tmp_path, corpus):
    with pytest.raises(ConfigError, match="distinct vectors"):
        topics(changed(corpus, num_clusters=500), DirectoryOut(tmp_path / "out"))
