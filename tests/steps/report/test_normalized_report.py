"""The page of normalised sources: counts that add up, what was changed and dropped, languages, nothing withheld shown."""

import json
from collections import Counter

import pyarrow as pa
import pytest

from marin_exec import StepFailed
from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, write_table
from steps.report.normalized import NormalizedReportConfig, normalized_report
from tests.directory_out import DirectoryOut
from tests.steps.report.built_report import Page
from tests.steps.report.normalized_chain import SECRET, SOURCES, TEXTS, card
from tests.steps.report.normalized_page import normalized_page


def html() -> str:
    return (normalized_page() / "index.html").read_text("utf-8")


def twin() -> dict:
    return json.loads((normalized_page() / "report.json").read_text())


def source(name: str) -> dict:
    return next(each for each in twin()["sources"] if each["source"] == name)


def test_counts_are_those_of_the_texts():
    assert [each["source"] for each in twin()["sources"]] == list(SOURCES)
    for each in twin()["sources"]:
        assert each["documents_in"] == len(TEXTS) and each["removed"] == {"blank": 2, "exact_duplicate": 2}
        assert each["documents"] == len(TEXTS) - 4 and each["shards"] == 3 and each["problem"] == ""
        assert set(each["changed"].values()) == {1}  # a text of each kind


def test_changed_texts_stand_beside_what_they_were():
    changes = {tuple(each["changes"]): each for each in source("prose")["changed_samples"]}
    assert set(changes) == {("whitespace_capped",), ("recomposed",), ("controls_removed",), ("repeats_capped",)}
    assert changes["whitespace_capped",]["characters"] == [908, 136]
    sides = changes["repeats_capped",]["segments"]
    assert "".join(text for text, _ in sides["raw"]) == f"a rule {'=' * 90} across"
    assert "".join(text for text, _ in sides["document"]) == f"a rule {'=' * 20} across"
    bell = "".join(text for text, _ in changes["controls_removed",]["segments"]["raw"])
    assert bell.startswith("a bell\u2407 and a nul\u2400 of")


def test_dropped_copies_are_named_with_the_one_that_stayed():
    [sample] = source("prose")["removed_samples"]
    assert (sample["copies"], sample["kept"], sample["names"]) == (2, "<i>prose/10", ["<i>prose/8", "<i>prose/9"])
    assert sample["passage"]["text"] == "the same text"


def test_languages_are_counted_and_what_is_in_no_declared_one_is_shown():
    found = source("prose")["languages"]
    assert found["declared"] == ["en"] and found["identified"] == {"en": len(TEXTS) - 9, "de": 4, "und": 1}
    assert found["low_scores"] == 4 and {each["language"] for each in found["samples"]} == {"de"}
    assert len(found["samples"]) == 4 and "de 8" in html()  # of the two sources that declare a language
    assert source("uncarded")["languages"]["samples"] == []


def test_text_and_names_of_withheld_sources_stand_nowhere_and_nothing_acts():
    text = html()
    for written in (text, json.dumps(twin())):
        assert SECRET not in written and "mail/" not in written and "uncarded/" not in written
        assert "jane.doe" not in written
    assert "not shown: personal data" in text and "not shown: no card" in text
    page = Page(text)
    tags = Counter(tag for tag, _ in page.tags)
    assert tags["script"] == 1 and tags["i"] == 0 and "owned" not in "".join(page.scripts)


def write_source(folder, name, texts):
    rows = [{"id": document_id(text), "text": text, "source_id": text[:5], "metadata": "{}"} for text in texts]
    (folder / name).mkdir()
    write_table(str(folder / name / "part-00000.parquet"), pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA))
    schema = pa.schema([(field, pa.string()) for field in ("source_id", "reason", "id", "kept_source_id")])
    write_table(str(folder / name / "removed.parquet"), schema.empty_table())
    return NamedInput(name=name, path=str(folder / name))


def test_source_that_breaks_the_contract_is_named_with_what_breaks_it(tmp_path):
    texts = sorted((f"text {n}" for n in range(5)), key=document_id)
    good, bad = write_source(tmp_path, "good", texts), write_source(tmp_path, "bad", texts[::-1])
    config = NormalizedReportConfig(normalized=(good, bad), cards=(card("good"), card("bad")))
    result = normalized_report(config, DirectoryOut(tmp_path / "page"))
    assert result.sources_broken == ("bad",) and result.documents == 10
    text = (tmp_path / "page" / "index.html").read_text()
    assert "not sorted and unique by id" in text and "Languages by source" not in text


def test_languages_of_other_documents_are_refused(tmp_path):
    (tmp_path / "languages" / "good").mkdir(parents=True)
    other = {"id": ["0" * 32], "language": ["de"], "language_score": pa.array([0.5], pa.float32())}
    write_table(str(tmp_path / "languages/good/part-00000.parquet"), pa.table(other))
    good = write_source(tmp_path, "good", ["one text"])
    config = NormalizedReportConfig(normalized=(good,), languages=str(tmp_path / "languages"), cards=(card("good"),))
    with pytest.raises(StepFailed, match=r"document 0000.* of source 'good' is not in"):
        normalized_report(config, DirectoryOut(tmp_path / "page"))
