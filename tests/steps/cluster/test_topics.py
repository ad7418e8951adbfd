import json
from dataclasses import replace

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
        intruder_questions=100,
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


def test_topics_figures_say_that_clear_topics_are_clear(tmp_path, corpus):
    result = topics(corpus, DirectoryOut(tmp_path / "out"))
    assert result.stability is not None and result.intruders is not None
    assert result.stability.seeds == 3 and result.stability.topic_rand > 0.95
    assert list(result.topic_stability) == list(result.topic_documents) == list(result.intruders.by_topic)
    assert result.intruders.score > 0.9 and result.intruders.chance == 0.2
    assert result.sources.topic_purity == pytest.approx(120 / 180, abs=1e-5)  # two of four topics are in two sources
    assert result.alarms == []


def test_topics_without_further_seeds_or_samples_have_no_such_figures(tmp_path, corpus):
    config = changed(corpus, stability_seeds=0, samples_per_topic=0)
    result = topics(config, DirectoryOut(tmp_path / "out"))
    assert (result.stability, result.topic_stability, result.intruders) == (None, {}, None)
    assert result.topic_documents == topics(corpus, DirectoryOut(tmp_path / "with")).topic_documents


def test_topics_one_cluster_holding_everything_is_an_alarm(tmp_path, corpus):
    out = DirectoryOut(tmp_path / "out")
    result = topics(changed(corpus, num_clusters=1, num_topics=1), out)
    assert [alarm.split(" holds ")[1] for alarm in result.alarms] == ["100% of the documents", "100% of the sample"]
    assert sum(message.startswith("alarm:") for message in out.messages) == 2


def test_topics_vectors_with_one_large_common_part_do_not_fall_into_one_cluster(tmp_path, corpus):
    """Uncentred, spherical k-means would see hardly more than the common part; see `vector_for`."""
    result = topics(corpus, DirectoryOut(tmp_path / "out"))
    assert result.largest_cluster_fraction < 0.3


def test_topics_samples_and_questions_are_documents_of_their_topics(tmp_path, corpus):
    out = DirectoryOut(tmp_path / "out")
    result = topics(changed(corpus, samples_per_topic=9), out)
    read = {name: (tmp_path / "out" / name).read_text() for name in ("samples.json", "intruder_questions.jsonl")}
    samples = json.loads(read["samples.json"])
    topic_of, text_of = {}, {}
    for source in corpus.documents:
        table = read_all(f"{out.path}/{source.name}")
        topic_of |= dict(zip(table["id"].to_pylist(), table["topic"].to_pylist(), strict=True))
        documents = read_all(source.path)
        text_of |= dict(zip(documents["id"].to_pylist(), documents["text"].to_pylist(), strict=True))
    for number, listed in enumerate(samples.values()):
        assert len({each["id"] for each in listed}) == 9
        for each in listed:
            assert topic_of[each["id"]] == number and text_of[each["id"]] == each["text"]
    questions = [json.loads(line) for line in read["intruder_questions.jsonl"].splitlines()]
    answers = [json.loads(line) for line in (tmp_path / "out/intruder_answers.jsonl").read_text().splitlines()]
    assert len(questions) == len(answers) == 100
    names = list(result.topic_documents)
    for question, answer in zip(questions, answers, strict=True):
        found = [names[topic_of[each["id"]]] for each in question["documents"]]
        assert found.pop(answer["intruder"]) == answer["intruder_topic"]
        assert found == [answer["topic"]] * 4 and answer["topic"] != answer["intruder_topic"]


def test_topics_do_not_depend_on_shards_their_order_or_threads(tmp_path, corpus):
    class Backwards(DirectoryOut):
        def map_shards(self, fn, items, *, cpus=1):
            done = super().map_shards(fn, dict(reversed(items.items())), cpus=cpus)
            return {name: done[name] for name in items}

    resharded = []
    for source in corpus.documents:
        documents, embeddings = read_all(source.path), read_all(f"{corpus.embeddings}/{source.name}")
        for kind, table in (("documents", documents), ("embeddings", embeddings)):
            (tmp_path / "whole" / kind / source.name).mkdir(parents=True)
            write_table(str(tmp_path / "whole" / kind / source.name / "part-00000.parquet"), table)
        resharded.append(NamedInput(name=source.name, path=str(tmp_path / "whole/documents" / source.name)))
    whole = changed(corpus, documents=tuple(resharded), embeddings=str(tmp_path / "whole/embeddings"), num_threads=3)
    one, other = topics(corpus, Backwards(tmp_path / "a")), topics(whole, DirectoryOut(tmp_path / "b"))
    assert replace(one, seconds=0) == replace(other, seconds=0)
    for name in ("topics.json", "samples.json", "intruder_questions.jsonl", "model/centroids.npy"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    for source in corpus.documents:
        assert read_all(f"{tmp_path}/a/{source.name}").equals(read_all(f"{tmp_path}/b/{source.name}"))


@pytest.mark.parametrize(("entry", "scale"), [(0, 1.0), (1, float("nan"))])
def test_topics_vectors_that_are_zero_or_not_finite_are_refused(tmp_path, corpus, entry, scale):
    path = tmp_path / "embeddings/one/part-00000.parquet"
    table = read_table(str(path.parent), path.name)
    values = np.full((table.num_rows, 16), entry, dtype=np.int8)
    write_table(str(path), embedding_table(table["id"].to_pylist(), values, scale))
    with pytest.raises(StepFailed, match=r"one/part-00000.parquet: 25 vectors are zero or not finite"):
        topics(corpus, DirectoryOut(tmp_path / "out"))


def test_topics_of_no_documents_at_all_are_refused(tmp_path, corpus):
    for source in corpus.documents:
        for kind in ("documents", "embeddings"):
            for path in (tmp_path / kind / source.name).iterdir():
                write_table(str(path), read_table(str(path.parent), path.name).slice(0, 0))
    with pytest.raises(StepFailed, match="no vectors"):
        topics(corpus, DirectoryOut(tmp_path / "out"))


def test_topics_from_a_sample_still_assign_every_document(tmp_path, corpus):
    result = topics(changed(corpus, sample_documents=60, num_clusters=6), DirectoryOut(tmp_path / "out"))
    assert (result.sample, result.documents) == (60, 180)


def test_topics_embeddings_of_other_documents_are_refused(tmp_path, corpus):
    _, two, three = corpus.documents
    mixed = (NamedInput(name="one", path=two.path), two, three)
    with pytest.raises(StepFailed, match="other documents"):
        topics(changed(corpus, documents=mixed), DirectoryOut(tmp_path / "out"))


def test_topics_embeddings_with_a_shard_more_or_less_are_refused_before_anything_is_trained(tmp_path, corpus):
    folder = tmp_path / "embeddings" / "one"
    shards = shard_names(str(folder))
    write_table(str(folder / "part-00009.parquet"), read_table(str(tmp_path / "embeddings" / "two"), shards[0]))
    with pytest.raises(StepFailed, match=r"embeddings table must have the same shards .* \['part-00009.parquet'\]"):
        topics(corpus, DirectoryOut(tmp_path / "out"))
    (folder / "part-00009.parquet").unlink()
    (folder / shards[0]).unlink()
    with pytest.raises(StepFailed, match=rf"differ in \['{shards[0]}'\]"):
        topics(corpus, DirectoryOut(tmp_path / "out"))


def test_topics_more_clusters_than_documents_are_refused(tmp_path, corpus):
    with pytest.raises(ConfigError, match="distinct vectors"):
        topics(changed(corpus, num_clusters=500), DirectoryOut(tmp_path / "out"))
