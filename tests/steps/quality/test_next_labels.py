import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from marin_exec import ConfigError, StepFailed
from steps.documents import NamedInput, document_id, read_all
from steps.quality.chat import ChatModel
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.excerpts import excerpt_of, read_excerpts
from steps.quality.labels import read_labels, write_labels
from steps.quality.labels_llm import LabelsLlmConfig, labels_llm
from steps.quality.next_labels import NextLabelsConfig, next_labels
from tests.directory_out import DirectoryOut
from tests.steps.embed.model_server import model_server
from tests.steps.embed.test_embed_documents import write_documents
from tests.steps.quality.quality_corpus import text_of, write_corpus, write_embeddings
from tests.steps.quality.test_labels_llm import reads

PRIVATE = [f"mail {number} of nobody's business " + "long " * 300 for number in range(40)]


def new_texts(source):
    return [text_of(source, score, number) for score in range(1, 6) for number in range(100, 130)]


def corpus(path, per_shard):
    """The labelled corpus, with as many unlabelled documents again, in shards of `per_shard`."""
    labelled = write_corpus(path / "labelled", per_score=8)
    sources = []
    for source in labelled:
        texts = read_all(source.path)["text"].to_pylist() + new_texts(source.name)
        sources.append(NamedInput(name=source.name, path=write_documents(path / "all" / source.name, texts, per_shard)))
    shared = new_texts("docs")[:20]  # of another source too
    sources.append(NamedInput(name="mail", path=write_documents(path / "all/mail", PRIVATE, per_shard)))
    sources.append(NamedInput(name="copies", path=write_documents(path / "all/copies", shared, per_shard)))
    for source in sources:
        write_embeddings(path / "embeddings" / source.name, source.path)
    return tuple(sources), str(path / "embeddings"), str(path / "labelled/labels")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("next")
    sources, embeddings, labels = corpus(path, 40)
    settings = ClassifierConfig(documents=sources, embeddings=embeddings, labels=labels, num_folds=4, num_resamples=2)
    classifier(settings, DirectoryOut(path / "classifier"))
    return NextLabelsConfig(
        documents=sources,
        embeddings=embeddings,
        labels=labels,
        classifier=str(path / "classifier"),
        count=50,
        never_show=("mail",),
        members=6,
        candidates_per_source=60,
    )


@pytest.fixture(scope="module")
def chosen(config, tmp_path_factory):
    out = DirectoryOut(tmp_path_factory.mktemp("out"))
    return out.path, next_labels(config, out)


def choice_rows(path):
    return pq.read_table(f"{path}/choice.parquet").to_pylist()


def test_excerpts_are_of_new_documents_that_may_be_shown_each_once(config, chosen):
    path, result = chosen
    texts = {document_id(text): text for source in ("code", "docs") for text in new_texts(source)}
    excerpts = read_excerpts(f"{path}/excerpts.jsonl")
    labelled = {label.id for label in read_labels(f"{config.labels}/labels.jsonl")}
    assert len(excerpts) == len({each.id for each in excerpts}) == 50
    assert not labelled & {each.id for each in excerpts} and "mail" not in {each.source for each in excerpts}
    assert all(each.excerpt == excerpt_of(texts[each.id]) for each in excerpts)
    assert (result.labelled, result.chosen, result.drawn) == (80, 40, 10)
    assert result.by_source == dict(Counter(each.source for each in excerpts))


def test_choice_says_what_spoke_for_each(chosen):
    path, result = chosen
    rows = choice_rows(path)
    assert [row["chosen_by"] for row in rows] == ["uncertainty"] * 40 + ["lot"] * 10
    assert {row["id"] for row in rows} == {each.id for each in read_excerpts(f"{path}/excerpts.jsonl")}
    assert all(row["uncertainty"] > 0 and row["coverage"] > 0 and row["novelty"] > 0 for row in rows[:40])
    assert result.mean_uncertainty > result.mean_uncertainty_drawn > 0
    assert result.by_type == dict(sorted(Counter(row["content_type"] for row in rows[:40]).items()))


def test_choice_does_not_depend_on_shards(config, chosen, tmp_path):
    sources, embeddings, _ = corpus(tmp_path, 17)
    next_labels(replace(config, documents=sources, embeddings=embeddings), DirectoryOut(tmp_path / "out"))
    for name in ("excerpts.jsonl", "choice.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == Path(chosen[0], name).read_bytes()


def test_another_seed_draws_others(config, chosen, tmp_path):
    next_labels(replace(config, seed=1), DirectoryOut(tmp_path))
    before, after = ({row["id"] for row in choice_rows(path)} for path in (chosen[0], tmp_path))
    assert before != after


def test_chosen_documents_are_read_by_a_model_and_then_are_not_chosen_again(config, chosen, tmp_path):
    with model_server(reads) as server:
        chat = ChatModel(model="reader-1", url=server.url, backoff_seconds=0.001)
        asked = LabelsLlmConfig(documents=config.documents, chat=chat, excerpts=chosen[0])
        result = labels_llm(asked, DirectoryOut(tmp_path / "labels"))
    assert result.documents == 50
    read = read_labels(f"{tmp_path}/labels/labels.jsonl")
    old = read_labels(f"{config.labels}/labels.jsonl")
    write_labels(str(tmp_path / "labels/labels.jsonl"), [*old, *read])
    next_labels(replace(config, labels=str(tmp_path / "labels")), DirectoryOut(tmp_path / "again"))
    again = {each.id for each in read_excerpts(f"{tmp_path}/again/excerpts.jsonl")}
    assert again and not again & {label.id for label in (*old, *read)}


def test_nothing_left_to_label_is_said(config, tmp_path):
    everything = tuple(source.name for source in config.documents)
    with pytest.raises(StepFailed, match="no document to choose"):
        next_labels(replace(config, never_show=everything), DirectoryOut(tmp_path))


def test_excerpts_that_are_not_there_are_named(config, tmp_path):
    chat = ChatModel(model="reader-1", url="http://localhost:9")
    with pytest.raises(ConfigError, match=r"excerpts .*not there"):
        labels_llm(
            LabelsLlmConfig(documents=config.documents, chat=chat, excerpts=str(tmp_path)), DirectoryOut(tmp_path)
        )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"never_show": ("none",)}, "are no sources"),
        ({"random_fraction": 1.5}, r"NextLabelsConfig\.random_fraction: 1\.5"),
        ({"members": 1}, r"NextLabelsConfig\.members: 1"),
    ],
)
def test_wrong_config_is_refused(config, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        replace(config, **changes)


def test_excerpts_file_is_of_the_form_that_readers_are_given(chosen):
    lines = Path(chosen[0], "excerpts.jsonl").read_text().splitlines()
    assert all(set(json.loads(line)) == {"id", "source", "excerpt"} for line in lines)
