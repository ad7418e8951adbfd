"""The page of decontamination: documents beside items, what both share marked; nothing acts, nothing withheld is shown."""

import json

from steps.documents import document_id
from tests.steps.report.built_report import Page
from tests.steps.report.decontamination_page import AROUND, ITEM, WORDS, decontamination_page
from tests.steps.report.diet_data import SECRET


def twin() -> dict:
    return json.loads((decontamination_page()[0] / "report.json").read_text())


def html() -> str:
    return (decontamination_page()[0] / "index.html").read_text("utf-8")


def test_document_stands_beside_its_item_with_what_they_share_marked():
    values = twin()
    hits = values["samples"]["exam/<b>"]
    assert sorted(hit["source"] for hit in hits) == ["mail", "prose", "prose"]
    for hit in hits:
        for side in ("paragraph", "item") if not hit["withheld"] else ():
            shared = "".join(text for text, is_shared in hit["segments"][side] if is_shared)
            assert shared.startswith("script>owned()") and shared.endswith(WORDS[-1])
    counts = {each["benchmark"]: (each["flagged"], each["items_met"]) for each in values["benchmarks"]}
    assert counts == {"exam/<b>": (3, 1), "other": (3, 1), "heldout-mail": (1, 1)}
    assert "partial, 1 of 3 items" in html() and decontamination_page()[1].documents_flagged == 4


def test_text_of_withheld_sources_stands_nowhere_not_as_a_benchmark_either():
    _, result = decontamination_page()
    for text in (html(), json.dumps(twin())):
        assert SECRET not in text and "From me" not in text and document_id(f"From me, {SECRET}: {ITEM}") in text
    of_mail = twin()["samples"]["heldout-mail"]
    assert {hit["source"] for hit in of_mail} == {"prose"} and not any(hit["segments"] for hit in of_mail)
    assert result.samples_withheld == sum(
        hit["withheld"] != "" for members in twin()["samples"].values() for hit in members
    )
    assert result.samples_shown > 0 and "not shown: personal data" in html()


def test_no_document_and_no_item_acts_on_the_page():
    page = Page(html())
    assert [tag for tag, _ in page.tags].count("script") == 1 and "owned" not in "".join(page.scripts)
    assert not [tag for tag, _ in page.tags if tag == "b"] and "exam/<b>" in page.text
    for text in (html(), json.dumps(twin())):
        assert "jane.doe" not in text and "1234567" not in text


def test_links_of_benchmarks_lead_to_their_documents():
    page = Page(html())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    links = [
        attributes["href"] for tag, attributes in page.tags if tag == "a" and attributes["href"].startswith("#hits-")
    ]
    assert len(links) == 3 and {link[1:] for link in links} <= set(ids) and len(set(ids)) == len(ids)


def test_what_was_left_out_as_boilerplate_is_listed_with_where_it_was_met():
    [row] = twin()["dropped"]
    assert (row["documents"], row["sources"], row["everywhere"]) == (4, {"prose": 4}, True)
    assert row["benchmarks"] == ["exam/<b>"] and "licence" in row["text"]


def test_page_shows_what_another_run_judges_otherwise():
    embedded = document_id(f"{AROUND} {ITEM}")
    assert embedded in [row["id"] for row in twin()["comparison"]["rows"]]
    assert "1 found" in html()
