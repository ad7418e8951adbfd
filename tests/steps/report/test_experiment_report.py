"""The page and its twin, made by a real run of a small chain."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from marin_exec import StepFailed
from steps.documents import NamedInput
from steps.forecast.forecast import NamedRun
from steps.report import formats
from steps.report.experiment import ExperimentReportConfig, content_digest, experiment_report
from steps.report.gather_training import headline
from steps.report.page import render_page
from tests.directory_out import DirectoryOut
from tests.steps.report.built_report import Built, Page, built_report

HOSTILE = "</script><img src=x onerror=alert(1)> \"'&"


@pytest.fixture(scope="module")
def built() -> Built:
    return built_report()


@pytest.fixture(scope="module")
def twin(built):
    return built.twin


@pytest.fixture(scope="module")
def page(built) -> Page:
    return Page(built.page)


def latest(built: Built, name: str) -> str:
    return str(next(built.engine.store.glob(f"{name}-*/a1-*")))


def outside_config(built: Built) -> ExperimentReportConfig:
    """The same outputs, by path, as a test or notebook without the engine would name them."""
    rungs = [NamedRun(name=f"d{width}", run=latest(built, f"ladder/d{width}")) for width in (32, 48, 64, 80)]
    sources = [NamedInput(name=n, path=latest(built, f"documents/{n}")) for n in ("code", "docstrings", "docs")]
    sources += [NamedInput(name=n, path=latest(built, f"documents/{n}")) for n in ("readmes", "licences")]
    single = ("forecast", "score", "noise", "cells", "heuristics", "labels", "classifier", "tokens", "mixture")
    return ExperimentReportConfig(
        title="Outside",
        hero=NamedRun(name="hero", run=latest(built, "hero")),
        rungs=tuple(rungs),
        sources=tuple(sources),
        fuzzy=latest(built, "judge-fuzzy"),
        contaminated=latest(built, "judge-contaminated"),
        topics=latest(built, "judge-topics"),
        **{name: latest(built, name) for name in single},
    )


def test_page_asks_nothing_of_the_network_and_is_small(built, page):
    links = [(tag, name, attributes[name]) for tag, attributes in page.tags for name in ("src", "href", "xlink:href", "srcset",
             "action", "data", "poster") if name in attributes]  # fmt: skip
    assert {value for _, _, value in links if not value.startswith("#")} == {"report.json", "data:,"}
    assert {tag for tag, _ in page.tags}.isdisjoint({"iframe", "object", "embed", "base", "form", "img"})
    style = "".join(page.styles) + "".join(a["style"] for _, a in page.tags if a.get("style"))
    assert "@import" not in style
    assert set(re.findall(r"url\(([^)]*)\)", built.page)) <= {"#reused-pattern", "#arrow"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\b\s*\(", "".join(page.scripts))
    assert len(built.page.encode()) < 2_000_000


def test_text_of_documents_is_escaped_and_shown_as_it_is(page, twin):
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == tags.count("style") == 1 and "img" not in tags and "b" in tags
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    shown = [each["text"] for each in twin["data"]["removed_samples"]]
    assert any(HOSTILE in text for text in shown)
    assert any("</style><script>document.title" in text for text in shown)
    assert all(" ".join(text.split()) in page.text for text in shown)
    assert "A small <chain> & its report" in page.text and "path-file-<b>directory</b>" in page.text


def test_numbers_of_the_twin_are_on_the_page(page, twin):
    first, funnel = twin["headline"], twin["data"]["funnel"]
    for name in ("predicted_loss", "actual_loss", "low", "high", "drop", "last_rung_loss", "seed_noise"):
        assert formats.loss(first[name]) in page.text, name
    assert f"{first['marks_within_range']} of {first['num_marks']}" in page.text
    for row in funnel["by_source"]:
        cells = [row["source"], row["documents_in"], formats.size(row["bytes_in"]), *row["removed_documents"].values(),
                 row["documents_kept"], formats.size(row["bytes_kept"])]  # fmt: skip
        assert " ".join(" ".join(map(str, cells)).split()) in re.sub(r"\s+", " ", page.text)
    for run in twin["training"]["runs"]:
        assert formats.loss(run["evaluations"][-1]["macro_loss"]) in page.text
        assert formats.count(run["active_parameters"]) in page.text
    for component in twin["data"]["mixture"]["components"]:
        assert f"{component['name']} " in page.text and formats.count(component["tokens"]) in page.text
    student = twin["data"]["quality"]["classifier"]["student"]["spearman"]
    assert f"{student['value']:.3f} [{student['low']:.3f}, {student['high']:.3f}]" in page.text
    assert "3.457" in page.text  # the checkpoint evaluated by itself


def test_funnel_and_cube_count_what_was_put_in(twin):
    """43 documents a source: one text in all five, one near duplicate, one flagged, and of 40 the short and held out."""
    funnel = twin["data"]["funnel"]
    gone = {stage["stage"]: stage["removed_documents"] for stage in funnel["stages"]}
    short = sum(
        len(f"x text number {n} {'with the words that people have to read of it ' * (n % 7)}".split()) < 6
        for n in range(40)
    )
    assert gone["exact_duplicate"] == 4 and gone["fuzzy_duplicate"] == 5 and gone["contaminated"] == 5
    assert gone["heuristics"] == 5 * short
    assert funnel["documents_in"] == 215 and funnel["documents_kept"] == 215 - sum(gone.values())
    cube = twin["data"]["cube"]
    assert sum(row["documents_kept"] for row in cube) == funnel["documents_kept"]
    assert sum(row["bytes_kept"] for row in cube) == funnel["bytes_kept"]


def test_headline_is_that_of_the_score(twin):
    score = twin["forecast"]["score"]
    hero = next(run for run in twin["training"]["runs"] if run["role"] == "hero")
    assert twin["headline"]["actual_loss"] == hero["evaluations"][-1]["macro_loss"]
    assert twin["headline"]["error"] == pytest.approx(score["predicted_loss"] - hero["evaluations"][-1]["macro_loss"])


def test_lineage_goes_up_to_the_raw_sources_and_names_run_and_digest(page, twin):
    rows = {row["name"]: row for row in twin["provenance"]["lineage"]}
    assert {f"documents/{n}" for n in ("code", "docstrings", "docs", "readmes", "licences")} <= set(rows)
    assert rows["hero"]["depth"] == 0 and "forecast (waited for)" in rows["hero"]["made_from"]
    assert "report" not in rows and "score" not in rows
    assert rows["documents/code"]["counts"]["documents"] == 43
    for row in rows.values():
        assert row["digest"][:16] in page.text and row["run_id"] in page.text and row["kind"] in page.text


def test_graph_stacks_alike_steps_and_shows_all_in_the_table(built, page, twin):
    keys = [attributes for tag, attributes in page.tags if tag == "g" and "node" in (attributes.get("class") or "")]
    assert len(twin["provenance"]["steps"]) == 28 and len(keys) == 28 - 4 - 4  # five documents and five ladder runs
    assert "documents/ ×5" in page.text and "ladder/ ×5" in page.text
    for step in twin["provenance"]["steps"]:
        assert step["name"] in page.text and step["digest"][:16] in page.text


def test_charts_have_titles_and_outside_points_another_shape(page, twin):
    charts = [attributes for tag, attributes in page.tags if (attributes.get("class") or "") == "chart"]
    assert len(charts) == 11 and all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    outside = sum(not mark["within_range"] for mark in twin["forecast"]["score"]["marks"])
    hollow = sum((attributes.get("class") or "") == "hollow" for _, attributes in page.tags)
    assert 0 < outside < 20
    assert hollow == 2 * outside + (not twin["headline"]["on_forecast"])  # both forecast charts, and the scaling plot


def test_status_says_made_in_this_run_then_reused_and_content_stays(built, twin):
    assert {step["status"] for step in twin["provenance"]["steps"]} == {"made in this run"}
    before = json.loads(built.engine.call("show", "report", "--json").stdout)["record"]
    built.run("--force", "report")
    again = built.twin
    by_name = {step["name"]: step["status"] for step in again["provenance"]["steps"]}
    assert by_name.pop("report") == "made in this run" and set(by_name.values()) == {"reused"}
    assert "↺ reused" in Page(built.page).text
    after = json.loads(built.engine.call("show", "report", "--json").stdout)["record"]
    assert again["provenance"]["run_id"] == after["run_id"] != before["run_id"]
    assert after["output_digest"] == before["output_digest"]
    assert {k: v for k, v in again.items() if k != "provenance"} == {k: v for k, v in twin.items() if k != "provenance"}


def test_page_outside_a_store_says_that_reuse_is_unknown(built, tmp_path):
    out = DirectoryOut(tmp_path / "out")
    result = experiment_report(outside_config(built), out)
    page = Page((tmp_path / "out" / result.page).read_text())
    assert json.loads((tmp_path / "out/report.json").read_text())["provenance"]["known"] is False
    assert "it is unknown how its inputs were made" in page.text and "svg" in {tag for tag, _ in page.tags}
    assert result.page_bytes == (tmp_path / "out/index.html").stat().st_size


def test_page_without_records_leaves_out_the_classifier_and_says_so(built, tmp_path):
    copied = {}
    config = outside_config(built)
    for name in ("labels", "classifier"):
        copied[name] = str(tmp_path / name)
        shutil.copytree(getattr(config, name), copied[name])
    experiment_report(dataclasses.replace(config, **copied), DirectoryOut(tmp_path / "out"))
    page = Page((tmp_path / "out/index.html").read_text())
    assert (
        "The classifier's record is not in reach" in page.text
        and "43 documents were labelled in 53 readings" in page.text
    )


def test_missing_output_file_is_named(built, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    config = dataclasses.replace(outside_config(built), cells=str(empty))
    with pytest.raises(StepFailed, match=re.escape(f"{empty}/funnel.json is not there; give the output of the step")):
        experiment_report(config, DirectoryOut(tmp_path / "out"))
    (empty / "funnel.json").write_text("{")
    with pytest.raises(StepFailed, match=r"funnel.json is not JSON .* run the step that wrote it again"):
        experiment_report(config, DirectoryOut(tmp_path / "out"))


def test_content_digest_ignores_provenance_and_nothing_else(built, tmp_path):
    report = built.twin
    for name, value in (("a", report), ("b", {**report, "provenance": {}}), ("c", {**report, "title": "Another"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(value))
    a, b, c = (content_digest(str(tmp_path / name)) for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("actual", "share", "within", "verdict"),
    [(3.60, 0.0, True, "On its forecast"), (3.70, 0.4, False, "Near its forecast"), (3.95, 9.0, False, "Off its forecast"),
     (3.95, None, False, "Off its forecast")],
)  # fmt: skip
def test_headline_verdict_follows_range_and_share_of_drop(actual, share, within, verdict):
    score = {
        "target": "hero", "within_range": within, "error": 3.6 - actual, "actual_loss": actual, "predicted_loss": 3.6,
        "error_share_of_drop": share, "last_rung_loss": 3.9, "drop": 3.9 - actual, "mean_absolute_error": 0.01,
        "marks_within_range": 1, "num_marks": 1, "forecast_digest": "d", "marks": [{"low": 3.55, "high": 3.65}],
    }  # fmt: skip
    found = headline({"score": score, "noise": {"range": 0.01, "seeds": [0, 1]}}, 0.5)
    assert found["verdict"] == verdict and f"{actual:.3f}" in found["sentence"]


def test_figures_that_there_are_none_of_are_shown_as_a_dash(twin):
    changed = {**twin, "headline": {**twin["headline"], "error_share_of_drop": None, "seed_noise": None}}
    text = Page(render_page(changed)).text
    assert "– of the drop" in text and "Seed noise of a rung –" in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_text_have_contrast_enough(theme):
    style = (Path(render_page.__code__.co_filename).parent / "templates/page.css").read_text()
    part = style.split("@media (prefers-color-scheme: dark)")[0 if theme == "light" else 1]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part.split("}\n")[0]))

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for ink in ("ink", "soft", "hero", "forecast", "good", "bad"):
        for ground in ("paper", "raised"):
            low, high = sorted((luminance(colours[ink]), luminance(colours[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)
