from dataclasses import replace

import pytest

from marin_exec import ConfigError, StepFailed
from steps.quality.labels import Label, mean_scores, read_labels, write_labels
from steps.quality.labels_merged import LabelsMergedConfig, labels_merged
from tests.directory_out import DirectoryOut

LABEL = Label(id="a", score=2, content_type="prose", reason="read", reader="one")


def write(path, labels):
    path.mkdir()
    write_labels(str(path / "labels.jsonl"), labels)
    return str(path)


def test_merged_labels_are_all_readings_and_scores_their_means(tmp_path):
    read = write(tmp_path / "read", [LABEL, replace(LABEL, id="b", score=5, content_type="code")])
    known = write(tmp_path / "known", [replace(LABEL, score=4, reader="metadata")])
    out = DirectoryOut(tmp_path / "out")
    result = labels_merged(LabelsMergedConfig(labels=(read, known)), out)
    labels = read_labels(f"{out.path}/labels.jsonl")
    assert mean_scores(labels) == {"a": 3.0, "b": 5.0}
    assert (result.documents, result.readings) == (2, 3)
    assert result.readings_by_reader == {"metadata": 1, "one": 2}
    assert result.score_counts == {"2": 1, "4": 1, "5": 1} and result.content_type_counts == {"code": 1, "prose": 2}


def test_order_of_the_sets_does_not_matter(tmp_path):
    sets = [write(tmp_path / name, [replace(LABEL, reader=name)]) for name in ("x", "y", "z")]
    for name, order in (("up", sets), ("down", sets[::-1])):
        labels_merged(LabelsMergedConfig(labels=tuple(order)), DirectoryOut(tmp_path / name))
    assert (tmp_path / "up/labels.jsonl").read_bytes() == (tmp_path / "down/labels.jsonl").read_bytes()


def test_one_reading_in_two_sets_is_refused(tmp_path):
    sets = tuple(write(tmp_path / name, [LABEL]) for name in ("x", "y"))
    with pytest.raises(StepFailed, match="one has read a in"):
        labels_merged(LabelsMergedConfig(labels=sets), DirectoryOut(tmp_path / "out"))


def test_no_set_is_refused():
    with pytest.raises(ConfigError, match=r"LabelsMergedConfig\.labels: \(\)"):
        LabelsMergedConfig(labels=())
