"""Pages of outputs that lie in no store: what only records know is said to be unknown, and the rest is as ever."""

import json
import shutil

from steps.documents import NamedInput
from steps.report.mixture import MixtureReportConfig, mixture_report
from steps.report.quality import QualityReportConfig, quality_report
from steps.report.topics import TopicsReportConfig, topics_report
from tests.directory_out import DirectoryOut
from tests.steps.report.built_report import Page
from tests.steps.report.chain_pages import chain_pages
from tests.steps.report.stage_chain import CARDS, SOURCES


def test_pages_outside_a_store(tmp_path):
    pages = chain_pages()

    def plain(name: str) -> str:
        target = tmp_path / name
        if not target.exists():
            shutil.copytree(pages.folder(name), target)
        return str(target)

    sources = tuple(NamedInput(name=name, path=plain(f"documents/{name}")) for name in SOURCES)
    given = {name: plain(name) for name in ("tokens", "mixture", "tokenizer", "cells")}
    for name, write, config in (
        ("topics", topics_report, TopicsReportConfig(topics=plain("topics"), embeddings=plain("embed"), cards=CARDS)),
        (
            "quality",
            quality_report,
            QualityReportConfig(
                sources=sources,
                scores=plain("scores"),
                classifier=plain("classifier"),
                gate=plain("gate"),
                next_labels=plain("next"),
                cards=CARDS,
            ),
        ),
        ("mixture", mixture_report, MixtureReportConfig(**given)),
    ):
        write(config, DirectoryOut(tmp_path / "pages" / name))
    texts = {
        name: Page((tmp_path / "pages" / name / "index.html").read_text()).text
        for name in ("topics", "quality", "mixture")
    }
    assert (
        "no record of the step" in texts["topics"] and "No record of the step that made the vectors" in texts["topics"]
    )
    assert "No record of quality/classifier" in texts["quality"] and "Where the score chooses" not in texts["quality"]
    twins = {name: json.loads((tmp_path / "pages" / name / "report.json").read_text()) for name in texts}
    assert twins["topics"]["topics"][0]["documents"] == pages.twin("topics")["topics"][0]["documents"]
    assert twins["quality"]["spread"]["bins"] == pages.twin("quality")["spread"]["bins"]
    assert twins["mixture"]["components"] == pages.twin("mixture")["components"]
    assert all(each["kind"] == "" for twin in twins.values() for each in twin["provenance"])
