"""The step quality/heuristics: dense table, reasons, counters, samples."""

import dataclasses
import json

import pytest

from marin_exec import ConfigError
from steps.documents import document_id, join_dense, read_all, read_table, shard_names
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.heuristics.presets import PROSE, Limit, Preset
from steps.heuristics.scores import SCORE_NAMES
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import write_documents
from tests.steps.heuristics.test_heuristic_scores import GOOD_CODE, GOOD_PROSE


def judge(root, sources, **options):
    root.mkdir(parents=True, exist_ok=True)
    options.setdefault("preset_by_source", {})
    return judge_documents(HeuristicsConfig(sources=tuple(sources), **options), DirectoryOut(root))


def test_judge_table_is_dense_and_says_why(tmp_path):
    repeated = (GOOD_PROSE + "\n\n") * 3
    source = write_documents(tmp_path, "web", [GOOD_PROSE, repeated, GOOD_CODE, "short"], num_shards=2)
    result = judge(tmp_path / "out", [source])
    table = f"{tmp_path}/out/web"
    assert shard_names(table) == shard_names(source.path)
    for shard in shard_names(table):
        join_dense(read_table(source.path, shard, ["id"]), read_table(table, shard))
    rows = {row["id"]: row for row in read_all(table).to_pylist()}
    assert tuple(rows[document_id("short")]) == ("id", "keep", "reasons", *SCORE_NAMES)
    assert rows[document_id(GOOD_PROSE)]["keep"] and rows[document_id(GOOD_PROSE)]["reasons"] == ""
    assert "gopher_duplicate_paragraphs: 0.67 > 0.3, " in rows[document_id(repeated)]["reasons"]
    assert rows[document_id("short")]["reasons"].startswith("gopher_words: 1 < 50, ")
    assert result.documents_in == {"web": 4} and result.documents_kept == {"web": 1}
    assert result.characters_kept == {"web": len(GOOD_PROSE)}
    for rule, count in result.removed_by_rule["web"].items():
        assert count == sum(f"{rule}: " in row["reasons"] for row in rows.values())


def test_judge_preset_is_chosen_by_source_name(tmp_path):
    sources = [write_documents(tmp_path, name, [GOOD_CODE]) for name in ("web", "code")]
    result = judge(tmp_path / "out", sources, preset_by_source={"code": "code"})
    assert result.preset == {"web": "prose", "code": "code"}
    assert result.documents_kept == {"web": 0, "code": 1}


def test_judge_moved_limit_moves_the_decision(tmp_path):
    source = write_documents(tmp_path, "web", [GOOD_PROSE])
    strict = Preset(name="prose", limits=(*PROSE.limits, Limit(score="gopher_words", minimum=1000)))
    assert judge(tmp_path / "loose", [source]).documents_kept == {"web": 1}
    assert judge(tmp_path / "strict", [source], presets=(strict,)).documents_kept == {"web": 0}


def test_judge_samples_are_seeded_bounded_and_independent_of_shards(tmp_path):
    texts = [f"Document number {number} is short." for number in range(50)]
    trees = []
    for name, shards in (("one", 1), ("five", 5)):
        source = write_documents(tmp_path / name, "web", texts, num_shards=shards)
        judge(tmp_path / name / "out", [source], samples_per_reason=7)
        trees.append(json.loads((tmp_path / name / "out/samples.json").read_text()))
    assert trees[0] == trees[1]
    assert len(trees[0]["gopher_words"]) == 7
    sample = trees[0]["gopher_words"][0]
    assert document_id(sample["text"]) == sample["id"] and "gopher_words: 5 < 50" in sample["reasons"]
    judge(tmp_path / "seed", [source], samples_per_reason=7, seed=1)
    assert json.loads((tmp_path / "seed/samples.json").read_text())["gopher_words"] != trees[0]["gopher_words"]


def test_judge_equal_runs_give_equal_bytes(tmp_path):
    source = write_documents(
        tmp_path, "web", [GOOD_PROSE, GOOD_CODE, *(f"Short {n}." for n in range(30))], num_shards=3
    )
    trees = []
    for name in ("a", "b"):
        result = judge(tmp_path / name, [source])
        files = [path for path in sorted((tmp_path / name).rglob("*")) if path.is_file()]
        trees.append(({str(p.relative_to(tmp_path / name)): p.read_bytes() for p in files}, dataclasses.asdict(result)))
        trees[-1][1].pop("seconds")
    assert trees[0] == trees[1] and len(trees[0][0]) == 3 + 2


def test_judge_quantiles_are_those_of_the_scores(tmp_path):
    source = write_documents(tmp_path, "web", [" ".join(["word"] * count) for count in range(1, 102)])
    judge(tmp_path / "out", [source])
    quantiles = json.loads((tmp_path / "out/quantiles.json").read_text())
    middle = quantiles["quantiles"].index(0.5)
    assert quantiles["scores"]["web"]["gopher_words"][middle] == 51


def test_judge_unknown_names_are_refused(tmp_path):
    source = write_documents(tmp_path, "web", [GOOD_PROSE])
    with pytest.raises(
        ConfigError, match=r"preset 'novel' is not known; the presets are \['code', 'prose', 'reference', 'starcoder'\]"
    ):
        judge(tmp_path / "out", [source], default_preset="novel")
    with pytest.raises(ConfigError, match=r"\['wbe'\], which are no sources; the sources are \['web'\]"):
        judge(tmp_path / "out", [source], preset_by_source={"wbe": "code"})
