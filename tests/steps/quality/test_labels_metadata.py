"""Labels from metadata: the first that fits, so many of each, and an error for one that fits nothing."""

import json

import pytest

from marin_exec import ConfigError, StepFailed
from steps.documents import NamedInput, document_id
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.quality.labels import read_labels
from steps.quality.labels_metadata import LabelsMetadataConfig, MetadataLabel, labels_metadata
from steps.sources.raw import RawDocument, write_raw
from tests.directory_out import DirectoryOut


def source(folder, name: str, documents: dict[str, dict]) -> NamedInput:
    raw = DirectoryOut(folder / f"raw-{name}")
    rows = [RawDocument(str(i), text, json.dumps(fields)) for i, (text, fields) in enumerate(documents.items())]
    write_raw(raw.file("raw-00000.parquet"), rows)
    out = DirectoryOut(folder / f"documents-{name}")
    normalize(NormalizeConfig(source=raw.path, documents_per_shard=3), out)
    return NamedInput(name=name, path=out.path)


@pytest.fixture
def mail(tmp_path):
    return source(tmp_path, "mail", {f"mail {i}": {"label": "spam" if i % 2 else "ham"} for i in range(10)})


def spam(**fields) -> MetadataLabel:
    values = {"source": "mail", "field": "label", "value": "spam", "score": 1, "content_type": "prose"}
    return MetadataLabel(**(values | fields))


def test_labels_are_those_of_the_first_rule_that_fits(mail, tmp_path):
    books = source(tmp_path, "books", {f"book {i}": {} for i in range(7)})
    labels = (
        spam(),
        MetadataLabel(source="mail", score=3, content_type="other"),
        MetadataLabel(source="books", score=5, content_type="prose", at_most=4),
    )
    out = DirectoryOut(tmp_path / "out")
    result = labels_metadata(LabelsMetadataConfig(documents=(mail, books), labels=labels), out)
    found = {
        label.id: (label.score, label.content_type, label.reason) for label in read_labels(f"{out.path}/labels.jsonl")
    }
    for i in range(10):
        expected = (1, "prose", "label is spam") if i % 2 else (3, "other", "of mail")
        assert found.pop(document_id(f"mail {i}")) == expected
    assert set(found.values()) == {(5, "prose", "of books")}
    assert result.documents_by_source == {"books": 4, "mail": 10}
    assert result.score_counts == {"1": 5, "3": 5, "5": 4}


def test_label_that_fits_no_document_is_an_error(mail, tmp_path):
    config = LabelsMetadataConfig(documents=(mail,), labels=(spam(value="Spam"),))
    with pytest.raises(StepFailed, match="no document of mail has 'label' = 'Spam'"):
        labels_metadata(config, DirectoryOut(tmp_path / "out"))


def test_label_of_no_source_or_score_is_refused(mail):
    with pytest.raises(ConfigError, match=r"no source \['letters'\]"):
        LabelsMetadataConfig(documents=(mail,), labels=(spam(source="letters"),))
    with pytest.raises(ConfigError, match=r"MetadataLabel\.score: 6"):
        spam(score=6)
    with pytest.raises(ConfigError, match=r"MetadataLabel\.content_type"):
        spam(content_type="poetry")
