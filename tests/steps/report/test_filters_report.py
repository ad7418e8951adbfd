"""The page of the heuristics, from a real run of quality/heuristics: counts, limits, nothing withheld, nothing that acts."""

import json
from pathlib import Path

import pyarrow as pa

from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, write_table
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.heuristics.scores import SCORE_NAMES
from steps.report.filters import FiltersReportConfig, filters_report
from steps.report.filters_sections import _family
from tests.directory_out import DirectoryOut
from tests.steps.report.built_report import Page
from tests.steps.report.diet_data import CARDS, SECRET

LANGUAGES = ["en", "de"]


def built(folder: Path) -> tuple[str, dict, dict]:
    """Returns the page, its twin, and the result of quality/heuristics."""
    for source in ("prose", "mail"):
        texts = [
            f"{source} {n} <script>owned()</script> </script> {SECRET if source == 'mail' else ''}" for n in range(30)
        ]
        rows = [
            {"id": document_id(text), "text": text, "source_id": f"<b>{n}", "metadata": "{}"}
            for n, text in enumerate(texts)
        ]
        rows.sort(key=lambda row: row["id"])
        paths = [folder / name / source / "part-00000.parquet" for name in ("documents", "languages")]
        for path in paths:
            path.parent.mkdir(parents=True)
        write_table(str(paths[0]), pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA))
        said = [{"id": row["id"], "language": LANGUAGES[n % 2]} for n, row in enumerate(rows)]
        write_table(str(paths[1]), pa.Table.from_pylist(said))
    sources = tuple(NamedInput(name=name, path=str(folder / "documents" / name)) for name in ("prose", "mail"))
    config = HeuristicsConfig(sources=sources, preset_by_source={})
    judged = judge_documents(config, DirectoryOut(folder / "rules"))
    given = {"heuristics": str(folder / "rules"), "languages": str(folder / "languages"), "cards": CARDS}
    filters_report(FiltersReportConfig(**given, samples_per_rule=20), DirectoryOut(folder / "page"))
    page = (folder / "page" / "index.html").read_text("utf-8")
    return page, json.loads((folder / "page" / "report.json").read_text()), vars(judged)


def test_counts_are_those_of_the_step_and_nothing_withheld_stands_on_the_page(tmp_path):
    text, twin, judged = built(tmp_path)
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
