"""The page of the heuristics, from a real run of quality/heuristics: counts, limits, nothing withheld, nothing that acts."""

import json

from steps.heuristics.scores import SCORE_NAMES
from steps.report.filters_sections import _family
from tests.steps.report.built_report import Page
from tests.steps.report.diet_data import SECRET
from tests.steps.report.filters_page import filters_page


def test_counts_are_those_of_the_step_and_nothing_withheld_stands_on_the_page():
    folder, judged = filters_page()
    text = (folder / "index.html").read_text("utf-8")
    twin = json.loads((folder / "report.json").read_text())
    came, kept = (sum(judged[name].values()) for name in ("documents_in", "documents_kept"))
    assert (twin["documents"], twin["removed"]) == (came, came - kept) and came > kept
    for name, key in (("removed", "removed_by_rule"), ("alone", "removed_by_one_rule")):
        for row in twin["rules"]:
            assert row[name] == sum(rules.get(row["rule"], 0) for rules in judged[key].values())
    assert {row["language"]: row["documents"] for row in twin["by"]["language"]} == {"en": 30, "de": 30}
    assert twin["histograms"] and all(sum(each["counts"]) == came for each in twin["histograms"].values())
    assert all(set(row["limits"]) >= set(twin["histograms"][row["rule"]]["limits"]) for row in twin["rules"])
    assert "not shown: personal data" in text and "partial, 20 of" in text
    assert SECRET not in text and SECRET not in json.dumps(twin)
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1 and "owned" not in "".join(page.scripts)
    # Many rules, few entries of the list of contents: a family each, and a link from every rule to its documents.
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    links = [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]
    rules = [link for link in links if link.startswith("#rule-")]
    assert len(rules) == len(twin["rules"]) and {link[1:] for link in rules} <= ids
    assert sum(link.startswith("#") for link in links) - len(rules) <= 10


def test_every_rule_is_of_a_family_of_its_kind():
    found = {rule: _family(rule) for rule in SCORE_NAMES}
    assert found["gopher_words"] == "words" and found["gopher_top_2gram"] == found["repeated_50gram"] == "repetition"
    assert found["c4_sentences"] == "c4" and found["code_alphabetic"] == "code" and found["mail_lines"] == "other"
    assert len(set(found.values())) == 6
