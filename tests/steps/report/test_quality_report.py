"""The page of quality, from real runs of the quality steps: figures are those of the tables, nothing withheld, nothing acts."""

import json
from collections import Counter

import numpy as np
import pytest

from steps.documents import document_id, read_table
from steps.quality.calibration import buckets
from steps.report.quality_reading import reason
from tests.steps.report.built_report import Page
from tests.steps.report.chain_pages import chain_pages
from tests.steps.report.stage_chain import SECRET, SHARD, SOURCES, texts_of


def scored() -> list[dict]:
    folder = chain_pages().folder("scores")
    return [{**row, "source": name} for name in SOURCES for row in read_table(str(folder / name), SHARD).to_pylist()]


def test_counts_are_those_of_the_tables():
    twin, rows = chain_pages().twin("quality")["spread"], scored()
    for axis, key in (("buckets_by_type", "content_type"), ("buckets_by_source", "source")):
        counted = Counter((row[key], row["bucket"]) for row in rows)
        assert twin[axis] == {name: [counted[name, bucket] for bucket in range(5)] for name in twin[axis]}
        assert set(twin[axis]) == {row[key] for row in rows}
    assert all(sum(bins) == sum(twin["buckets_by_type"][name]) for name, bins in twin["bins"].items())
    assert twin["documents"] == len(rows)


def test_scores_of_held_out_documents_are_set_against_their_labels():
    calibration = chain_pages().twin("quality")["calibration"]
    lines = (chain_pages().folder("classifier") / "held_out.jsonl").read_text().splitlines()
    held = [json.loads(line) for line in lines]
    heights = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    curves = calibration["curves"]
    scores = [
        np.interp(row["prediction"], curves.get(row["predicted_content_type"], curves["all"]), heights) for row in held
    ]
    counted = Counter(
        (int(bucket), int(row["label"] + 0.5))
        for bucket, row in zip(buckets(np.array(scores, np.float32)), held, strict=True)
    )
    assert calibration["by_bucket"] == [[counted[bucket, level] for level in range(1, 6)] for bucket in range(5)]
    tenths = calibration["reliability"]
    assert sum(row["documents"] for row in tenths) == calibration["held_out"] == len(held)
    mean = sum(row["documents"] * row["label"] for row in tenths) / len(held)
    assert mean == pytest.approx(np.mean([row["label"] for row in held]), abs=1e-3)
    assert [row["score"] for row in tenths] == sorted(row["score"] for row in tenths)


def test_samples_are_of_their_band_and_of_sources_that_may_be_shown():
    samples = chain_pages().twin("quality")["samples"]
    table = {(row["source"], row["id"]): row for row in scored()}
    bands = {0: "low", 2: "middle", 4: "high"}
    texts = {document_id(text): text for text in texts_of("prose")}
    counted = Counter((row["content_type"], row["bucket"]) for row in table.values() if row["source"] == "prose")
    for each in samples:
        row = table[each["source"], each["id"]]
        assert each["source"] == "prose" and (each["band"], each["content_type"]) == (
            bands[row["bucket"]],
            row["content_type"],
        )
        assert (
            each["score"] == pytest.approx(row["score"], abs=1e-4)
            and each["of"] == counted[row["content_type"], row["bucket"]]
        )
        assert each["passage"]["text"][:20] == texts[each["id"]][:20]
    shown = Counter((each["content_type"], each["band"]) for each in samples)
    assert shown == {(name, bands[b]): min(2, n) for (name, b), n in counted.items() if b in bands}


def test_sources_that_are_not_judged_and_readers_that_agree_are_on_the_page():
    text = Page(chain_pages().page("quality")).text
    assert "Not judged: uncarded" in text and "named in the config" in text
    agreement = chain_pages().twin("quality")["labels"]["agreement"]
    assert agreement["pairs"] == 12 and agreement["exact"] < 1 and "weighted kappa" in text
    result = chain_pages().result("classifier")["student"]["spearman_within_type"]
    assert f"{result['value']:.3f} [{result['low']:.3f}, {result['high']:.3f}]" in text.replace("\u2212", "-")


def test_what_to_label_next_has_its_reasons():
    twin = chain_pages().twin("quality")["to_label"]
    chosen = read_table(str(chain_pages().folder("next")), "choice.parquet")
    assert [row["id"] for row in twin["rows"]] == chosen["id"].to_pylist() and len(twin["rows"]) == 12
    assert [each["id"] for each in twin["shown"]] == [row["id"] for row in twin["rows"][:8]]
    assert not any(each["source"] == "mail" for each in twin["rows"])
    text = Page(chain_pages().page("quality")).text
    assert "partial, 8 of 12 documents to label" in text and reason(twin["rows"][0], 1) in text
    assert reason({**twin["rows"][0], "chosen_by": "lot"}, 9).startswith("Drawn by lot")


def test_nothing_withheld_stands_on_the_page_and_nothing_acts():
    text, twin = chain_pages().page("quality"), chain_pages().twin("quality")
    uncarded = [each for each in twin["to_label"]["shown"] if each["source"] == "uncarded"]
    assert uncarded and all(each["passage"]["text"] == "" for each in uncarded)
    for written in (text, json.dumps(twin)):
        assert SECRET not in written and SECRET.split()[1] not in written and "jane.doe" not in written
    page = Page(text)
    assert "Of mail, uncarded no text may be shown" in page.text
    assert [tag for tag, _ in page.tags].count("script") == 1 and "owned" not in "".join(page.scripts)
    assert not {"i", "b", "img", "quality"} & {tag for tag, _ in page.tags}
