import json
from dataclasses import replace

import numpy as np
import pytest

from marin_exec import ConfigError, StepFailed
from steps.quality.classifier import ClassifierConfig, baselines, classifier
from steps.quality.labels import read_labels, write_labels
from steps.quality.student import load_student
from tests.directory_out import DirectoryOut
from tests.steps.quality.quality_corpus import write_corpus, write_embeddings


@pytest.fixture
def config(tmp_path):
    sources = write_corpus(tmp_path)
    return ClassifierConfig(
        documents=sources,
        embeddings=str(tmp_path / "embeddings"),
        labels=str(tmp_path / "labels"),
        num_folds=5,
        num_resamples=50,
        min_labels_per_type=30,
    )


def relabel(tmp_path, new_score):
    path = str(tmp_path / "labels/labels.jsonl")
    write_labels(path, [replace(label, score=new_score(row, label)) for row, label in enumerate(read_labels(path))])


def test_classifier_learns_what_the_text_says_and_beats_both_baselines(tmp_path, config):
    result = classifier(config, DirectoryOut(tmp_path / "out"))
    assert result.labelled == 120 and result.positives == 48
    assert result.student.spearman_within_source.value > 0.8
    assert result.student.auc.value > 0.9
    assert abs(result.length.spearman_within_source.value) < 0.4
    assert result.source_mean.spearman_within_source.value == 0
    assert result.content_type_accuracy > 0.97
    assert result.beats_baselines and "beats both" in result.verdict
    assert result.curves == ("code", "prose", "all")
    assert set(result.spearman_by_source) == {"code", "docs"}


def test_classifier_on_labels_that_mean_nothing_says_so(tmp_path, config):
    rng = np.random.default_rng(0)
    relabel(tmp_path, lambda row, label: int(rng.integers(1, 6)))
    result = classifier(config, DirectoryOut(tmp_path / "out"))
    assert not result.beats_baselines
    assert "not shown" in result.verdict
    assert abs(result.student.spearman.value) < 0.4  # fitted perfectly in sample, so this is held out or it is a leak


def test_classifier_on_labels_that_are_the_source_says_that_the_source_explains_them(tmp_path, config):
    relabel(tmp_path, lambda row, label: 4 if label.content_type == "code" else 2)
    result = classifier(config, DirectoryOut(tmp_path / "out"))
    assert result.student.spearman.value > 0.8 and result.source_mean.spearman.value == pytest.approx(1.0)
    assert not result.beats_baselines and "not shown to know more than the source" in result.verdict


def test_classifier_twice_gives_equal_bytes(tmp_path, config):
    for name in "ab":
        classifier(config, DirectoryOut(tmp_path / name))
    names = {each.name for each in (tmp_path / "a").iterdir()}
    assert names == {"student.json", "score_weights.npy", "type_weights.npy", "held_out.jsonl"}
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


def test_classifier_held_out_predictions_agree_with_the_figures(tmp_path, config):
    result = classifier(config, DirectoryOut(tmp_path / "out"))
    rows = [json.loads(line) for line in (tmp_path / "out/held_out.jsonl").read_text().splitlines()]
    right = [row["content_type"] == row["predicted_content_type"] for row in rows]
    assert len(rows) == 120 and np.mean(right) == pytest.approx(result.content_type_accuracy, abs=1e-4)
    assert np.corrcoef([row["label"] for row in rows], [row["prediction"] for row in rows])[0, 1] > 0.8


def test_classifier_keeps_the_curves_with_the_student(tmp_path, config):
    classifier(config, DirectoryOut(tmp_path / "out"))
    saved = load_student(str(tmp_path / "out"))
    assert saved.student.content_types == ("code", "prose") and saved.student.dimensions == 8
    assert sorted(saved.curves) == ["all", "code", "prose"] and saved.window_characters is None


def test_classifier_with_too_few_labels_is_refused(tmp_path, config):
    path = str(tmp_path / "labels/labels.jsonl")
    write_labels(path, read_labels(path)[:9])
    with pytest.raises(StepFailed, match="9 labelled documents"):
        classifier(config, DirectoryOut(tmp_path / "out"))


def test_classifier_embeddings_of_other_documents_are_refused(tmp_path, config):
    write_embeddings(tmp_path / "wrong/code", config.documents[1].path)
    write_embeddings(tmp_path / "wrong/docs", config.documents[1].path)
    with pytest.raises(StepFailed, match="other documents"):
        classifier(replace(config, embeddings=str(tmp_path / "wrong")), DirectoryOut(tmp_path / "out"))


def test_classifier_one_fold_is_refused(tmp_path, config):
    with pytest.raises(ConfigError, match=r"ClassifierConfig\.num_folds: 1"):
        classifier(replace(config, num_folds=1), DirectoryOut(tmp_path / "out"))


def test_length_baseline_takes_the_sign_that_suits_the_labels():
    texts, scores = ["x" * length for length in (1, 10, 100)], np.array([5.0, 3.0, 1.0])
    found = baselines(texts, scores, np.array(["a", "a", "b"]))
    assert (np.diff(found["length"]) < 0).all()
    np.testing.assert_array_equal(found["source_mean"], [4, 4, 1])
