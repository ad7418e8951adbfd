"""The page of topics, from a real run of cluster/topics: its figures are those of the tables, nothing withheld, nothing acts."""

import json

import pytest

from steps.documents import read_table
from steps.report.topics_sections import doubtful
from tests.steps.report.built_report import Page
from tests.steps.report.chain_pages import chain_pages
from tests.steps.report.stage_chain import CARDS, SECRET, SHARD, SOURCES


def test_figures_are_those_of_the_tables():
    pages = chain_pages()
    twin, topics = pages.twin("topics"), pages.folder("topics")
    tables = {source: read_table(str(topics / source), SHARD)["topic"].to_pylist() for source in SOURCES}
    largest = 0
    for row in twin["topics"]:
        counted = {source: each.count(row["topic"]) for source, each in tables.items()}
        assert row["documents_by_source"] == counted and row["documents"] == sum(counted.values())
        assert counted[row["source"]] == max(counted.values()) and 0 <= row["stability"] <= 1
        assert row["purity"] == max(counted.values()) / row["documents"]
        largest += max(counted.values())
    total = sum(map(len, tables.values()))
    assert twin["trust"]["purity"] == pytest.approx(largest / total)
    assert [row["documents"] for row in twin["topics"]] == sorted(
        (r["documents"] for r in twin["topics"]), reverse=True
    )
    assert sum(row["share"] for row in twin["topics"]) == pytest.approx(1)
    asked = sum(row["intruder_score"] * row["documents"] for row in twin["topics"]) / total
    assert twin["trust"]["intruders_by_size"] == pytest.approx(asked)
    assert twin["trust"]["intruders"]["score"] == pages.result("topics")["intruders"]["score"]


def test_page_says_how_topics_came_about():
    text = Page(chain_pages().page("topics")).text
    assert "8 clusters were divided, always the widest group first, until there were 4 topics" in text
    assert "The floor is 10.0\u00a0% of the sample" in text.replace("10.0 %", "10.0\u00a0%")
    mergers = chain_pages().twin("topics")["mergers"]
    assert len(mergers) == 3 and mergers[0]["cosine"] > 0.5  # the two subjects whose axes lie close
    for fact in ("0.0250 %", "the least 0.9911", "<u>made up</u>"):
        assert fact in text


def test_nothing_withheld_stands_on_the_page_and_nothing_acts():
    pages = chain_pages()
    text, twin = pages.page("topics"), pages.twin("topics")
    withheld = [each for members in twin["samples"].values() for each in members if each["source"] != "prose"]
    assert withheld and all(each["passage"]["text"] == "" == each["source_id"] for each in withheld)
    for written in (text, json.dumps(twin["samples"])):
        assert SECRET not in written and "jane.doe" not in written and "555" not in written
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1 and "owned" not in "".join(page.scripts)
    assert not {"i", "u", "b", "img", "topics"} & {tag for tag, _ in page.tags}
    shown = sum(map(len, twin["samples"].values()))
    assert f"partial, {shown} of {sum(row['documents'] for row in twin['topics'])} documents" in page.text
    assert len(CARDS) == 2  # the third source has none


def test_step_digests_stand_in_the_footer():
    text = Page(chain_pages().page("topics")).text
    assert all(f"{name} " in text for name in ("cluster/topics", "test/vectors"))


def test_doubtful_topics_are_named_worst_first():
    def row(name, stability, told):
        return {"name": name, "share": 0.25, "stability": stability, "intruder_score": told}

    found = doubtful([row("a", 0.49, 0.9), row("b", 0.1, None), row("c", 0.5, 0.39)])
    assert found == [
        "Another seed finds less than half of 2 of 3 topics, 50.0\u00a0% of the documents: b (0.10), a (0.49).",
        "Intruders are told hardly better than by guessing in 1 of 3 topics, 25.0\u00a0% of the documents: c (0.39).",
    ]
    assert doubtful([row("a", 0.9, 0.9)]) == ["No topic is below these marks."]
    assert doubtful([row("a", None, None)]) == ["Neither was measured."]
