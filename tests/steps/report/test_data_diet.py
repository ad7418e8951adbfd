"""The data-diet page: exact counts, nothing hostile acts, nothing that must not be shown is."""

import dataclasses
import json
import re
from collections import Counter

import pytest

from marin_exec import StepFailed
from steps.documents import read_table
from steps.report.data_diet import DataDietConfig, data_diet
from steps.report.shown import WITHHELD_PERSONAL, WITHHELD_UNKNOWN
from tests.directory_out import DirectoryOut
from tests.steps.report.built_report import Page
from tests.steps.report.diet_data import SECRET, SOURCES, diet_inputs, diet_page
from tests.steps.report.large_diet import large_diet

EVERY = 1_000
"""Documents of a cell on the page: all of them."""


def twin() -> dict:
    return json.loads((diet_page()[0] / "report.json").read_text())


def html(samples_per_cell: int = 2) -> str:
    return (diet_page(samples_per_cell)[0] / "index.html").read_text("utf-8")


def test_counts_are_those_of_the_ledger():
    folder, _ = diet_inputs()
    ledger = read_table(str(folder / "cells"), "ledger.parquet").to_pylist()
    fates = Counter((row["source"], row["fate"]) for row in ledger)
    found = {
        (row["source"], fate): each["documents"] for row in twin()["by_source"] for fate, each in row["fates"].items()
    }
    assert found == fates and sum(fates.values()) == len(ledger)
    kept_bytes = sum(row["bytes"] for row in ledger if row["fate"] == "kept")
    rows = {row["stage"]: row for row in twin()["funnel"]}
    last = rows["without held out for evaluation"]
    assert (last["bytes"], last["tokens"], last["tokens_estimated"]) == (
        kept_bytes,
        kept_bytes,
        False,
    )  # a token a byte
    assert sum(row["tokens"] for row in twin()["cube"]) == kept_bytes == diet_page()[1].tokens_available


def test_trained_tokens_are_the_available_ones_times_the_epochs_that_the_mixture_states():
    folder, _ = diet_inputs()
    mixture = json.loads((folder / "mixture" / "mixture.json").read_text())
    largest = mixture["budgets_tokens"].index(max(mixture["budgets_tokens"]))
    stated = {cell: each["exposures"][largest] for each in mixture["components"] for cell in each["cells"]}
    for row in twin()["cube"]:
        assert sum(row["epochs"]) == pytest.approx(stated[row["cell"]], rel=1e-9)
        assert row["trained_tokens"] == pytest.approx([row["tokens"] * each for each in row["epochs"]])
    assert any(sum(row["epochs"]) > 0 for row in twin()["cube"])


def test_no_document_acts_on_the_page():
    page = Page(html(EVERY))
    tags = Counter(tag for tag, _ in page.tags)
    assert tags["script"] == 1 and tags["img"] == 0 and tags["i"] == 0
    assert "owned" not in "".join(page.scripts) and "document.title = 'owned'" in page.text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "\u202e" not in html(EVERY) and "\u2066" not in html(EVERY) and "⟨U+202E⟩" in html(EVERY)
    assert "A <diet> & its page" in page.text
    assert "http://" not in html(EVERY).replace("http://www.w3.org", "") and "https://" not in html(EVERY)


def test_addresses_are_masked_and_other_figures_are_not():
    assert "••••.•••@•••••••.••• or call +• (•••) •••-••••, version 10.0.19041.1234 of 2026-12-01" in html(EVERY)
    for text in (html(EVERY), (diet_page(EVERY)[0] / "report.json").read_text()):
        assert "jane.doe" not in text and "123-4567" not in text


def test_text_of_withheld_sources_stands_nowhere():
    folder, result = diet_page(EVERY)
    assert result.withheld_sources == ("mail", "uncarded")
    for path in [folder / "index.html", folder / "report.json", *folder.glob("ids/*.js")]:
        assert SECRET not in path.read_text("utf-8"), path
    text = html(EVERY)
    assert WITHHELD_PERSONAL in text and WITHHELD_UNKNOWN in text and "mail/1" not in text


def test_near_duplicates_stand_side_by_side_with_their_words_marked():
    pair = next(pair for pair in twin()["near_duplicates"] if pair["source"] == "prose")
    assert [text for text, differs in pair["segments"]["document"] if differs] == ["borrowed"]
    assert [text for text, differs in pair["segments"]["kept"] if differs] == ["copied"]
    assert "<mark>borrowed</mark>" in html() and "<mark>copied</mark>" in html()
    others = [pair for pair in twin()["near_duplicates"] if pair["source"] != "prose"]
    assert others and all(pair["novel_words"] == [] and not any(pair["segments"].values()) for pair in others)


def test_what_is_sampled_says_so_and_large_documents_are_cut():
    assert re.search(r"partial, \d+ of \d+ kept documents", html())
    assert len(html()) < 400_000
    for members in twin()["cell_samples"].values():
        for member in members:
            assert len(member["passage"]["text"]) <= 500


def test_every_document_can_be_looked_up():
    folder, _ = diet_inputs()
    page, _ = diet_page()
    found = {}
    for path in page.glob("ids/*.js"):
        call = re.fullmatch(r'shelf\("(..)",(\[.*?\]),(\[.*\])\);\n', path.read_text())
        assert call and call[1] == path.stem and json.loads(call[2]) == list(SOURCES)
        for identifier, source, fate, _reason, cell in json.loads(call[3]):
            assert identifier.startswith(path.stem)
            found[identifier] = (SOURCES[source], fate, cell)
    ledger = read_table(str(folder / "cells"), "ledger.parquet").to_pylist()
    assert found == {row["id"]: (row["source"], row["fate"], row["cell"]) for row in ledger}


def test_too_many_documents_are_not_searched_and_few_cells_are_sampled(tmp_path):
    _, inputs = diet_inputs()
    data_diet(DataDietConfig(**inputs, most_searched=10, most_cells=3), DirectoryOut(tmp_path))
    text = (tmp_path / "index.html").read_text()
    assert not (tmp_path / "ids").exists() and "too many to be looked up here" in text
    assert "from 3 of 10 cells" in text


def test_same_inputs_give_the_same_page(tmp_path):
    _, inputs = diet_inputs()
    data_diet(DataDietConfig(title="A <diet> & its page", **inputs), DirectoryOut(tmp_path))
    assert (tmp_path / "index.html").read_bytes() == (diet_page()[0] / "index.html").read_bytes()


@pytest.mark.slow
def test_ten_thousand_cells_make_a_page_that_says_what_it_leaves_out(tmp_path):
    inputs = large_diet(tmp_path, cells=10_000, documents=10_000)
    result = data_diet(DataDietConfig(**inputs), DirectoryOut(tmp_path / "page"))
    text = (tmp_path / "page" / "index.html").read_text()
    assert result.documents_kept == 10_000 and result.page_bytes < 500_000
    assert "partial, 100 of 10,000 kept documents, from 100 of 10,000 cells" in text
    assert "Partial, the first 500 of 2,000 rows" in text and "Partial, the first 40 of 10,000 rows" in text
    twin = json.loads((tmp_path / "page" / "report.json").read_text())
    assert len(twin["cube"]) == 10_000 == len({row["cell"] for row in twin["cube"]})
    files = list((tmp_path / "page" / "ids").iterdir())
    assert len(files) == 256 and max(path.stat().st_size for path in files) < 10_000


def test_token_store_of_other_cells_is_refused(tmp_path):
    folder, inputs = diet_inputs()
    index = json.loads((folder / "tokens" / "index.json").read_text())
    from steps.tokenize.store import CellEntry, TokenIndex, write_index

    cells = tuple(CellEntry(**each) for each in index["cells"][1:])
    keys = [each.name for each in dataclasses.fields(TokenIndex) if each.name != "cells"]
    (tmp_path / "documents").symlink_to(folder / "tokens" / "documents")
    write_index(str(tmp_path / "index.json"), TokenIndex(**{key: index[key] for key in keys}, cells=cells))
    with pytest.raises(StepFailed, match="not those that"):
        data_diet(DataDietConfig(**inputs | {"tokens": str(tmp_path)}), DirectoryOut(tmp_path / "page"))
