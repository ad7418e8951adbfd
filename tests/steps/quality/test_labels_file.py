import json

import pytest

from marin_exec import ConfigError, IdentityMismatch, Step, StepFailed
from marin_exec.identity import identify
from steps.documents import NamedInput, document_id
from steps.quality.labels import Label, read_labels, write_labels
from steps.quality.labels_file import LabelsFileConfig, file_digest, label_path, labels_file
from tests.directory_out import DirectoryOut
from tests.steps.embed.test_embed_documents import write_documents

TEXTS = [f"document {number}" for number in range(10)]


@pytest.fixture
def config(tmp_path):
    sources = (
        NamedInput(name="one", path=write_documents(tmp_path / "one", TEXTS[:6], 4)),
        NamedInput(name="two", path=write_documents(tmp_path / "two", TEXTS[5:], 4)),
    )
    labels = [
        Label(id=document_id(text), score=1 + row % 5, content_type="prose", reason="x", reader=reader)
        for row, text in enumerate(TEXTS)
        for reader in ("a", "b")[: 1 + row % 2]
    ]
    labels.append(Label(id="f" * 32, score=1, content_type="code", reason="gone", reader="a"))
    path = str(tmp_path / "labels.jsonl")
    write_labels(path, labels)
    return LabelsFileConfig(documents=sources, labels=path, digest=file_digest(path))


def changed(config, **changes):
    return LabelsFileConfig(**{**{name: getattr(config, name) for name in config.__dataclass_fields__}, **changes})


def test_labels_are_joined_and_the_unmatched_reported(tmp_path, config):
    out = DirectoryOut(tmp_path / "out")
    result = labels_file(config, out)
    assert (result.documents, result.readings, result.unmatched) == (10, 15, 1)
    assert result.documents_by_source == {"one": 6, "two": 5}
    assert {label.id for label in read_labels(out.file("labels.jsonl"))} == {document_id(text) for text in TEXTS}
    assert json.loads((tmp_path / "out/unmatched.json").read_text()) == ["f" * 32]
    assert result.agreement.pairs == 5 and result.agreement.exact == 1.0
    assert sum(result.score_counts.values()) == 15 and result.content_type_counts == {"prose": 15}


def test_labels_file_that_changed_is_refused_with_both_digests(tmp_path, config):
    with open(config.labels, "a") as file:
        file.write("\n")
    with pytest.raises(IdentityMismatch, match=f"{file_digest(config.labels)}, the config states {config.digest}"):
        labels_file(config, DirectoryOut(tmp_path / "out"))


def test_labels_made_for_other_documents_are_refused(tmp_path, config):
    others = (NamedInput(name="x", path=write_documents(tmp_path / "x", ["something else", TEXTS[0]], 4)),)
    with pytest.raises(StepFailed, match="1 of 11 labelled documents"):
        labels_file(changed(config, documents=others), DirectoryOut(tmp_path / "out"))
    labels_file(changed(config, documents=others, min_matched_fraction=0.0), DirectoryOut(tmp_path / "out"))


def test_missing_label_file_says_where_it_was_looked_for(tmp_path, config):
    with pytest.raises(ConfigError, match="not there"):
        labels_file(changed(config, labels=str(tmp_path / "none.jsonl")), DirectoryOut(tmp_path / "out"))


def test_bare_name_is_a_file_of_the_package():
    assert label_path("environment_default.jsonl").endswith("steps/quality/labels/environment_default.jsonl")
    assert label_path("gs://bucket/l.jsonl") == "gs://bucket/l.jsonl"


def digest_of(config):
    step = Step("labels", labels_file, config)
    return identify([step])[id(step)].digest


def test_labels_file_moved_is_the_same_step_and_changed_is_another(config):
    assert digest_of(changed(config, labels="gs://bucket/elsewhere.jsonl")) == digest_of(config)
    assert digest_of(changed(config, digest="0" * 32)) != digest_of(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digest": "3b4b"}, r"LabelsFileConfig\.digest: '3b4b'; 32 hex digits"),
        ({"min_matched_fraction": 90}, r"LabelsFileConfig\.min_matched_fraction: 90"),
        ({"documents": ()}, r"LabelsFileConfig\.documents is empty"),
    ],
)
def test_labels_file_wrong_setting_is_refused_when_the_config_is_made(config, changes, message):
    with pytest.raises(ConfigError, match=message):
        changed(config, **changes)
