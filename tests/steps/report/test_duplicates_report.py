"""The page of near duplicates, from a real run of dedup/fuzzy: counts, structure in words, nothing withheld."""

import functools
import json
import tempfile
from pathlib import Path

import pytest

from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput
from steps.report.duplicates import DuplicatesReportConfig, duplicates_report, in_words
from tests.directory_out import DirectoryOut
from tests.steps.report.built_report import Page
from tests.steps.report.diet_data import CARDS, SECRET, SOURCES, diet_inputs


@functools.cache
def built() -> tuple[Path, dict, int]:
    """Returns the page's folder, its twin, and how many documents dedup/fuzzy says it removed."""
    keep = tempfile.TemporaryDirectory(prefix="duplicates-")
    built.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    folder, documents = Path(keep.name), diet_inputs()[0] / "documents"
    sources = tuple(NamedInput(name=name, path=str(documents / name)) for name in SOURCES)
    exact_duplicates(ExactConfig(sources=sources), DirectoryOut(folder / "exact"))
    config = FuzzyConfig(sources=sources, exact=str(folder / "exact"), containment=0.6, shingle_words=1, rows=4)
    removed = fuzzy_duplicates(config, DirectoryOut(folder / "fuzzy")).removed
    duplicates_report(DuplicatesReportConfig(fuzzy=str(folder / "fuzzy"), cards=CARDS), DirectoryOut(folder / "page"))
    return folder / "page", json.loads((folder / "page" / "report.json").read_text()), removed


def test_counts_are_those_of_the_step():
    _, twin, removed = built()
    assert removed > 0 and twin["removed"] == removed == sum(row["removed"] for row in twin["cluster_sizes"])
    assert twin["clusters"] == sum(row["clusters"] for row in twin["cluster_sizes"])
    assert [each["documents"] for each in twin["largest"]] == sorted(
        (e["documents"] for e in twin["largest"]), reverse=True
    )


def test_nothing_withheld_stands_on_the_page_and_nothing_acts():
    folder, twin, _ = built()
    text = (folder / "index.html").read_text("utf-8")
    assert any(pair["source"] == "mail" for pair in twin["pairs"]) and "not shown: personal data" in text
    for written in (text, json.dumps(twin)):
        assert SECRET not in written and SECRET.split()[1] not in written
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1 and "owned" not in "".join(page.scripts)


def test_samples_of_more_say_so():
    folder, twin, removed = built()
    shown = len(twin["pairs"])
    assert (
        shown < removed and f"partial, {shown} of {removed:,} removed documents" in (folder / "index.html").read_text()
    )


@pytest.mark.parametrize(
    ("documents", "removed", "holders", "most", "words"),
    [
        (3, 0, 0, 0, "Linked by shared bands only: none holds enough of another, so all 3 stay."),
        (5, 4, 1, 4, "A star: one kept text holds 4 others."),
        (6, 4, 1, 4, "A star: one kept text holds 4 others; 1 more stay."),
        (9, 5, 2, 3, "2 stars: 2 kept texts hold 5 others, the largest 3; 4 stay."),
    ],
)
def test_structure_in_words(documents, removed, holders, most, words):
    assert in_words({"documents": documents, "removed": removed, "holders": holders, "most_held_by_one": most}) == words
