"""Removed documents to be read, of a deduplication that compared them with an earlier run's."""

import json

from steps.dedup.fuzzy import EarlierRun
from steps.documents import document_id
from steps.report.duplicates import DuplicatesReportConfig, duplicates_report
from steps.report.gather_samples import gather_samples
from steps.report.shown import WITHHELD_UNKNOWN
from steps.sources.cards import SourceCard
from tests.directory_out import DirectoryOut
from tests.steps.dedup.dedup_corpus import deduplicate, write_documents

OLD = " ".join(f"word{n} of{n % 7} a{n % 11} longer text" for n in range(60)) + " and a closing remark"
NEW = OLD.removesuffix(" and a closing remark")


def test_copy_that_an_earlier_run_kept_is_named_though_its_source_is_not_given(tmp_path):
    old, new = write_documents(tmp_path / "old", [OLD]), write_documents(tmp_path / "new", [NEW])
    first = deduplicate(tmp_path / "first", [old])
    found = deduplicate(tmp_path / "second", [new], earlier=(EarlierRun(fuzzy=str(first.path), sources=(old,)),))
    assert [row["kept_source"] for row in found.removed.values()] == ["old"]
    for name, file in (("rules", "samples.json"), ("overlap", "flagged_samples.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("{}")
    folders = (str(found.path), str(tmp_path / "rules"), str(tmp_path / "overlap"))
    [sample] = gather_samples((new,), *folders, per_reason=1, characters=100)
    assert (sample["id"], sample["kept"]["id"]) == (document_id(NEW), document_id(OLD))
    assert "old" in sample["reason"] and "earlier run" in sample["kept"]["source_id"]

    card = SourceCard(name="new", kind="help", languages=("en",), origin="a test", licence="CC-0", limits="Made up.")
    config = DuplicatesReportConfig(fuzzy=str(found.path), cards=(card,))
    duplicates_report(config, DirectoryOut(tmp_path / "page"))
    [pair] = json.loads((tmp_path / "page" / "report.json").read_text())["pairs"]
    assert pair["withheld"] == {"document": "", "kept": WITHHELD_UNKNOWN} and pair["segments"]["kept"] == []
