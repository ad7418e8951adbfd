"""The page of near duplicates, from a real run of dedup/fuzzy: counts, structure in words, nothing withheld."""

import json

import pytest

from steps.report.duplicates import in_words
from tests.steps.report.built_report import Page
from tests.steps.report.diet_data import SECRET
from tests.steps.report.duplicates_page import duplicates_page


def test_counts_are_those_of_the_step():
    _, twin, removed = duplicates_page()
    assert removed > 0 and twin["removed"] == removed == sum(row["removed"] for row in twin["cluster_sizes"])
    assert twin["clusters"] == sum(row["clusters"] for row in twin["cluster_sizes"])
    assert [each["documents"] for each in twin["largest"]] == sorted(
        (e["documents"] for e in twin["largest"]), reverse=True
    )


def test_nothing_withheld_stands_on_the_page_and_nothing_acts():
    folder, twin, _ = duplicates_page()
    text = (folder / "index.html").read_text("utf-8")
    assert any(pair["source"] == "mail" for pair in twin["pairs"]) and "not shown: personal data" in text
    for written in (text, json.dumps(twin)):
        assert SECRET not in written and SECRET.split()[1] not in written
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1 and "owned" not in "".join(page.scripts)


def test_samples_of_more_say_so():
    folder, twin, removed = duplicates_page()
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
