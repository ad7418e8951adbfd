import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from marin_exec import ConfigError, StepFailed
from steps.quality.labels import (
    Label,
    agreement,
    first_readings,
    mean_scores,
    parse_judgement,
    read_labels,
    spearman,
    weighted_kappa,
    write_labels,
)

GOOD = {"id": "a" * 32, "score": 3, "content_type": "code", "reason": "routine", "reader": "r1"}
SCORES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=3, max_size=60)


def label(identifier, score, reader, content_type="prose"):
    return Label(id=identifier, score=score, content_type=content_type, reason="x", reader=reader)


def write_lines(path, *rows):
    path.write_text("\n".join(json.dumps(row) if isinstance(row, dict) else row for row in rows))
    return str(path)


@given(SCORES)
def test_spearman_agrees_with_scipy(pairs):
    first, second = np.array(pairs).T
    if np.ptp(first) and np.ptp(second):
        assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)
    else:
        assert spearman(first, second) == 0.0


@given(SCORES)
def test_weighted_kappa_agrees_with_scikit_learn(pairs):
    first, second = np.array(pairs).T
    if len({*first, *second}) == 1:  # undefined there, and one thing to say about readers who never differ
        assert weighted_kappa(first, second) == 1.0
    else:
        expected = cohen_kappa_score(first, second, weights="quadratic", labels=[1, 2, 3, 4, 5])
        assert weighted_kappa(first, second) == pytest.approx(expected, abs=1e-9)


def test_agreement_counts_pairs_only():
    labels = [
        label("a", 1, "x"),
        label("b", 4, "x"),
        label("c", 5, "x"),
        label("a", 2, "y"),
        label("b", 4, "y", "code"),
    ]
    found = agreement(labels)
    assert (found.pairs, found.exact, found.within_one, found.same_content_type) == (2, 0.5, 1.0, 0.5)
    assert found.spearman == 1.0


def test_agreement_of_single_readings_is_none():
    assert agreement([label("a", 1, "x"), label("b", 1, "x")]) is None


def test_mean_scores_and_first_readings_join_readers():
    labels = [label("a", 1, "x"), label("a", 4, "y", "code"), label("b", 5, "y")]
    assert mean_scores(labels) == {"a": 2.5, "b": 5.0}
    assert [each.reader for each in first_readings(labels)] == ["x", "y"]


def test_labels_written_and_read_are_equal_and_sorted(tmp_path):
    labels = [label("b", 2, "y"), label("a", 3, "y", "legal"), label("a", 5, "x", "other")]
    write_labels(str(tmp_path / "l.jsonl"), labels)
    assert read_labels(str(tmp_path / "l.jsonl")) == [labels[2], labels[1], labels[0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": 6}, "score 6"),
        ({"score": 2.5}, "score 2.5"),
        ({"score": True}, "score True"),
        ({"score": "4"}, "score '4'"),
        ({"content_type": "poem"}, "content_type 'poem'"),
        ({"reason": ""}, "reason"),
        ({"reader": ""}, "reader"),
        ({"id": 7}, "id is 7"),
    ],
)
def test_bad_line_is_named_with_what_is_wrong(tmp_path, changes, message):
    path = write_lines(tmp_path / "l.jsonl", GOOD, {**GOOD, "id": "b", **changes})
    with pytest.raises(StepFailed, match=f"line 2: .*{message}"):
        read_labels(path)


def test_line_that_is_no_json_is_named(tmp_path):
    with pytest.raises(StepFailed, match="line 2"):
        read_labels(write_lines(tmp_path / "l.jsonl", GOOD, "{not json"))


def test_reader_who_reads_a_document_twice_is_refused(tmp_path):
    with pytest.raises(StepFailed, match="line 2: r1 has read"):
        read_labels(write_lines(tmp_path / "l.jsonl", GOOD, GOOD))


def test_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="not there"):
        read_labels(str(tmp_path / "none.jsonl"))


def test_judgement_whole_float_and_spare_spaces_are_accepted():
    value = {"score": 4.0, "content_type": "code", "reason": " two\n lines "}
    assert parse_judgement(value) == (4, "code", "two lines")
