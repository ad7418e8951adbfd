"""The page of mixture and tokens: from a real store its figures are those of the tables; parts of it on mixtures made by hand."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest

from marin_exec import ConfigError, StepFailed
from steps.documents import NamedInput, read_table
from steps.mix.mixture import Component, Mixture, read_mixture
from steps.mix.weights_file import cell_weights, write_weights
from steps.report import mixture_gather, search_gather, tokens_gather
from steps.report.mixture import MixtureReportConfig
from steps.report.mixture_sections import remarks
from steps.tokenize.store import CellEntry, TokenIndex, read_index
from tests.steps.mix.search.made_runs import make_mixture, write_index_only
from tests.steps.report.built_report import Page
from tests.steps.report.chain_pages import chain_pages
from tests.steps.report.stage_chain import SHARD, SOURCES, texts_of

CELLS = {"c00q0": 5_000, "c00q1": 40_000, "c01q0": 60_000}


def documents() -> list[dict]:
    """A row a document of the chain's store, from its own tables and the cells' documents."""
    pages, rows = chain_pages(), []
    spoken = {
        row["id"]: row["language"]
        for source in SOURCES
        for row in read_table(str(pages.folder("languages") / source), SHARD).to_pylist()
    }
    for path in sorted((pages.folder("cells") / "cells").iterdir()):
        texts = {row["id"]: row for row in read_table(str(path), SHARD).to_pylist()}
        for row in read_table(str(pages.folder("tokens") / "documents"), f"{path.name}.parquet").to_pylist():
            found = texts[row["id"]]
            assert row["num_bytes"] == len(found["text"].encode())
            rows.append({**row, "cell": path.name, "source": found["source"], "language": spoken[row["id"]]})
    return rows


@pytest.mark.parametrize("axis", ["cell", "source", "language"])
def test_counts_are_those_of_the_tables(axis):
    store, rows = chain_pages().twin("mixture")["store"], documents()
    counted: dict[str, Counter] = {name: Counter() for name in ("documents", "tokens", "bytes")}
    for row in rows:
        for name, count in (("documents", 1), ("tokens", row["num_tokens"]), ("bytes", row["num_bytes"])):
            counted[name][row[axis]] += count
    assert {row[axis] for row in store[f"by_{axis}"]} == {row[axis] for row in rows}
    for row in store[f"by_{axis}"]:
        assert {name: row[name] for name in counted} == {name: counted[name][row[axis]] for name in counted}
    assert store["total"] == {name: sum(each.values()) for name, each in counted.items()}


def test_tokenizer_was_tried_on_documents_of_the_store():
    twin = chain_pages().twin("mixture")
    assert twin["round_trip"] == {"documents": 20, "same_text": 20, "same_length": 20}
    assert twin["tokenizer"]["digest"] == chain_pages().result("tokenizer")["tokenizer_digest"]
    assert "20 come back as they went in, 20 have as many tokens" in Page(chain_pages().page("mixture")).text


def test_text_that_does_not_come_back_is_counted(tmp_path):
    """A tokenizer that changes one subject's texts."""
    pages = chain_pages()
    body = json.loads((pages.folder("tokenizer") / "tokenizer.json").read_text())
    body["normalizer"] = {"type": "Replace", "pattern": {"String": "licence warranty"}, "content": "w"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(body))
    tokens, cells = (str(pages.folder(name)) for name in ("tokens", "cells"))
    tried = tokens_gather.round_trip(tokens, read_index(tokens), f"{cells}/cells", str(tmp_path), 500, 0)
    changed = sum("licence warranty" in text for source in SOURCES for text in texts_of(source))
    assert tried["documents"] == sum(len(texts_of(source)) for source in SOURCES)
    assert tried["documents"] - tried["same_text"] == changed == tried["documents"] - tried["same_length"] > 0


def test_weights_and_epochs_are_those_of_the_mixture():
    pages = chain_pages()
    twin, mixture = pages.twin("mixture"), read_mixture(str(pages.folder("mixture")))
    assert twin["mixture"]["fingerprint"] == mixture.token_store
    by_name = {row["name"]: row for row in twin["components"]}
    assert set(by_name) == {each.name for each in mixture.components}
    for each in mixture.components:
        row = by_name[each.name]
        assert row["counts"] == list(each.counts) and row["shares"] == [count / 100 for count in each.counts]
        assert row["epochs"] == pytest.approx(each.exposures) and max(row["epochs"]) <= mixture.max_epochs + 1e-9
    assert [row["epochs"][1] for row in twin["components"]] == sorted(
        (r["epochs"][1] for r in twin["components"]), reverse=True
    )
    for row in twin["blocks"]:
        assert sum(100 * whole + rest for whole, rest in row["phases"]) == row["sequences"]
    assert {row["cell"] for row in twin["tail"]} == set(by_name.get("tail", {"cells": []})["cells"])


def component(name: str, cells: tuple[str, ...], weights: tuple, counts: tuple) -> Component:
    return Component(
        name=name, cells=cells, tokens=1_000, sequences=60, weights=weights, counts=counts, exposures=(0.5,)
    )


MIXTURE = Mixture(
    token_store="0" * 64, sequence_length=16, block_sequences=10, phase_starts=(0.0, 0.5), budgets_tokens=(16 * 50,),
    max_epochs=2.0, capped=("a",), rounded_down=("a", "b"), rounded_to_zero=("tail",),
    components=(
        component("a", ("a",), (0.6, 0.98), (6, 10)),
        component("b", ("b",), (0.4, 0.0), (4, 0)),
        component("tail", ("x", "y"), (0.0, 0.02), (0, 0)),
    ),
)  # fmt: skip


def test_what_got_zero_is_named_by_its_cells():
    found = mixture_gather.got_zero(MIXTURE)
    assert [(row["cell"], row["component"], row["phase"], row["sequences_wanted"]) for row in found] == [
        ("x", "tail", 1, 0.2),
        ("y", "tail", 1, 0.2),
    ]
    rows = {row["name"]: remarks(row) for row in mixture_gather.components(MIXTURE)}
    assert rows == {"a": "at the cap", "b": "never rounded up", "tail": "2 cells; not seen in phase 1"}


def test_tail_is_listed_with_the_reason_of_each_cell():
    cells = tuple(
        CellEntry(name=name, tokens=tokens, documents=1, bytes=9, digest="0")
        for name, tokens in (("a", 999), ("b", 999), ("x", 64), ("y", 65))
    )
    index = TokenIndex(
        begin_token=0, end_token=None, vocabulary_size=9, tokenizer_digest="0", split="train", cells=cells
    )
    found = [list(row.values()) for row in mixture_gather.tail(MIXTURE, index, "4")]
    assert found == [["x", 64, 3, "fewer than 4 sequences"], ["y", 65, 4, "a weight below one sequence a block"]]
    assert {row["reason"] for row in mixture_gather.tail(MIXTURE, index, None)} == {"not recorded"}


def test_run_that_is_too_short_for_a_component_says_so():
    thin = component("b", ("b",), (0.1, 0.1), (1, 1))
    first = dataclasses.replace(MIXTURE.components[0], counts=(9, 9))
    short = dataclasses.replace(MIXTURE, components=(first, thin), budgets_tokens=(16 * 4,), rounded_down=())
    (row,) = mixture_gather.blocks(short)
    assert (row["phases"], row["not_drawn"], row["components_drawn"]) == ([[0, 2], [0, 2]], ["b"], 1)


def test_run_that_stands_for_a_larger_one_uses_its_share(tmp_path):
    said = ({"tokens": 100}, {"tokens": 100, "simulated_budget_tokens": 2_000, "subset_seed": 3})
    for number, each in enumerate(said):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "run.json").write_text(json.dumps(each))
    runs = tuple(NamedInput(name=f"run{number}", path=str(tmp_path / str(number))) for number in range(2))
    whole, part = mixture_gather.simulated(MIXTURE, str(tmp_path), runs)
    assert (whole["sequences_used"], whole["stands_for_tokens"]) == (180, None)
    assert (part["sequences_used"], part["sequences"], part["held_at_one"]) == (9, 180, 0)  # 60 * 100 // 2,000 of each


def test_run_on_another_mixture_is_refused():
    pages = chain_pages()
    mixture, run = str(pages.folder("mixture")), str(pages.folder("run"))
    (found,) = pages.twin("mixture")["simulated"]
    sizes = [each.sequences for each in read_mixture(mixture).components]
    assert found["sequences_used"] == sum(max(min(size, 1), size // 10) for size in sizes)
    assert (found["stands_for_tokens"], found["subset_seed"], found["run"]) == (20_000, 5, "a <run>")
    with pytest.raises(StepFailed, match="was not trained on the mixture"):
        mixture_gather.simulated(read_mixture(mixture), str(pages.folder("tokens")), (NamedInput(name="a", path=run),))


def test_candidate_of_a_search_is_set_beside_the_mixture(tmp_path):
    store = write_index_only(tmp_path / "store", CELLS)
    index, shares = read_index(store), np.array([[0.25, 0.25, 0.5], [0.25, 0.5, 0.25]])
    proportional = [[1 / 4, 1 / 4, 1 / 2]] * 2
    page = {
        "cells": list(CELLS), "predicted_gain": 0.2, "predicted_gain_deviation": 0.05, "proportional": proportional,
        "candidates": [{"predicted_loss": 4.0, "deviation": 0.1, "shares": shares.tolist()}],
    }  # fmt: skip
    (tmp_path / "candidates.json").write_text(json.dumps(page))
    write_weights(str(tmp_path / "weights.json"), cell_weights(index, (0.0, 0.8), shares))
    made = make_mixture(tmp_path / "mixture", store, str(tmp_path / "weights.json"), max_epochs=1_000.0)
    found = search_gather.candidate(str(tmp_path), read_mixture(made), index)
    assert found["distance_to_mixture"] == 0
    moved = {row["cell"]: (row["proportional"], row["candidate"]) for row in found["moved"]}
    assert moved == {"c00q1": (0.25, pytest.approx(0.3)), "c01q0": (0.5, pytest.approx(0.45))}  # by 0.2 of the run
    other = read_index(write_index_only(tmp_path / "other", CELLS, digest="1" * 32))
    with pytest.raises(StepFailed, match="weights for the token store"):
        search_gather.candidate(str(tmp_path), read_mixture(made), other)


def test_what_is_not_of_the_store_is_refused():
    index = read_index(str(chain_pages().folder("tokens")))
    with pytest.raises(StepFailed, match="is for the token store 0000000000000000"):
        mixture_gather.check_store(MIXTURE, index, "mixture")
    with pytest.raises(StepFailed, match="the token store was made with"):
        other = dataclasses.replace(index, tokenizer_digest="0" * 32)
        tokens_gather.tokenizer(str(chain_pages().folder("tokenizer")), other)
    with pytest.raises(ConfigError, match="candidate is None"):
        MixtureReportConfig(tokens="t", mixture="m", gain="g")


def test_document_without_a_language_is_an_error():
    pages = chain_pages()
    index = read_index(str(pages.folder("tokens")))
    with pytest.raises(StepFailed, match="has no language"):
        tokens_gather.by_language(str(pages.folder("tokens")), index, str(pages.folder("languages")), ["prose"])


def test_page_names_no_document_and_nothing_acts():
    page = Page(chain_pages().page("mixture"))
    assert [tag for tag, _ in page.tags].count("script") == 1 and "owned" not in "".join(page.scripts)
    assert not {"mixture", "b", "i"} & {tag for tag, _ in page.tags}
    assert "The <mixture> & its page" in page.text and "Fingerprint of the store" in page.text
