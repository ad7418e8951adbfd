"""The decontamination step: rules one by one, and the whole against a plain Python judge."""

import importlib.metadata
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steps.decontaminate.benchmarks import HUMANEVAL, read_package_benchmark
from steps.decontaminate.ngrams import DecontaminateConfig, find_contaminated
from steps.decontaminate.rules import Boilerplate, Thresholds
from steps.documents import document_id, read_table
from tests import directory_out
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import decontaminate, suite, write_documents

ITEM = (
    "I believe in one passage alone and no more, and I hope that the reader of this made up creed will find it "
    "neither too long to be hashed nor too short to be found again by a machine that reads."
)
UNRELATED = "A ladder of widths is trained with one rule so that the largest run can be forecast before it is started."
OFF = Boilerplate(documents=10**9, source_documents=10**9)


def hits_of(root, texts, item=ITEM, **options):
    """Runs the step on texts as one source; returns the rows of those that were found, in the order of `texts`."""
    source = write_documents(root, "web", texts)
    result, tables = decontaminate(root / "out", [source], [suite(root, "held", [item])], **options)
    found = tables["web"]
    assert result.contaminated == {"web": len(found)}
    return [found.get(document_id(text)) for text in texts]


def wrap(text, words_a_line, prefix=""):
    words = text.split()
    return "\n".join(prefix + " ".join(words[i : i + words_a_line]) for i in range(0, len(words), words_a_line))


def test_ngrams_document_wrapped_at_eight_words_is_still_found(tmp_path):
    found = hits_of(tmp_path, [wrap(ITEM, 8), wrap(ITEM, 8, prefix="# "), ITEM.upper() + "!", UNRELATED])
    assert [row and row["max_overlap"] for row in found] == [1.0, 1.0, 1.0, None]
    assert found[0]["benchmark"] == "held" and found[0]["example"] == f"held:{document_id(ITEM)}"
    assert found[0]["num_hits"] == len(ITEM.split()) - 12


def test_ngrams_stubs_and_number_tables_never_match(tmp_path):
    stubs = ["...", "A.", "B.\n\nC.", " ".join(map(str, range(40)))]
    item = "...\n\nA.\n\n" + " ".join(map(str, range(40))) + "\n\n" + ITEM
    assert hits_of(tmp_path, stubs, item=item) == [None] * 4


def test_ngrams_short_item_matches_whole_paragraphs_only(tmp_path):
    item = "Which river flows through Prague?"
    source = write_documents(tmp_path, "web", [f"{UNRELATED}\n\n{item}", f"Ask: {item}", UNRELATED])
    benchmark = suite(tmp_path, "short", [item], short=True)
    _, tables = decontaminate(tmp_path / "out", [source], [benchmark])
    assert set(tables["web"]) == {document_id(f"{UNRELATED}\n\n{item}")}
    off = suite(tmp_path, "off", [item])
    result, tables = decontaminate(tmp_path / "off", [source], [off])
    assert tables["web"] == {} and result.records_without_features == {"off": 1}


def test_ngrams_short_item_is_found_inside_a_paragraph_from_eight_words_on(tmp_path):
    eight = "Which celebrated river flows through the capital Prague?"
    seven = "Which celebrated river flows through old Prague?"
    phrase = "how to do it and what it is"  # eight words, but of few letters: any text may hold it
    texts = [f"{UNRELATED} {item} {UNRELATED}" for item in (eight, seven, phrase)] + [eight]
    source = write_documents(tmp_path, "web", texts)
    benchmark = suite(tmp_path, "short", [seven, phrase, eight + " "], short=True)
    _, tables = decontaminate(tmp_path / "out", [source], [benchmark])
    assert set(tables["web"]) == {document_id(texts[0]), document_id(eight)}
    assert {row["coverage"] for row in tables["web"].values()} == {1.0}
    assert tables["web"][document_id(texts[0])]["max_overlap"] == 0.0
    _, tables = decontaminate(tmp_path / "off", [source], [benchmark], shortest_run_words=13)
    assert set(tables["web"]) == {document_id(eight)}


def test_ngrams_one_shared_feature_of_many_is_chance(tmp_path):
    words = ITEM.split()
    one = " ".join([*words[:13], "and", "nothing"])  # 3 features, 1 of them the item's
    two = " ".join([*words[:14], "and"])  # 3 features, 2 of them the item's
    only = " ".join(words[:13])  # its only feature
    found = hits_of(tmp_path, [one, two, only], thresholds=Thresholds(overlap=0.3))
    assert [row and row["num_hits"] for row in found] == [None, 2, 1]
    loose = hits_of(tmp_path / "loose", [one], thresholds=Thresholds(overlap=0.3, min_hits=1))
    assert loose[0]["num_hits"] == 1


def test_ngrams_overlap_threshold_moves_what_is_found(tmp_path):
    words, filler = ITEM.split(), [f"filler{number}" for number in range(60)]
    texts = [" ".join([*words[:20], *filler[:count]]) for count in (0, 8, 24, 60)]
    shares = [8 / (8 + count) for count in (0, 8, 24, 60)]
    for overlap in (0.05, 0.2, 0.4, 0.9):
        found = hits_of(tmp_path / str(overlap), texts, thresholds=Thresholds(overlap=overlap))
        assert [row is not None for row in found] == [share >= overlap for share in shares]


def test_ngrams_absolute_rule_finds_an_item_inside_a_long_paragraph(tmp_path):
    long = " ".join(f"word{number}" for number in range(200)) + " " + ITEM
    off = Thresholds(item_coverage=None)
    assert hits_of(tmp_path / "off", [long], thresholds=off) == [None]
    on = Thresholds(item_coverage=None, absolute_hits=8)
    assert hits_of(tmp_path / "on", [long], thresholds=on)[0]["num_hits"] > 8


def test_ngrams_item_coverage_threshold_moves_what_is_found_inside_long_paragraphs(tmp_path):
    words, filler = ITEM.split(), [f"filler{number}" for number in range(200)]
    texts = [" ".join([*filler, *words[:count]]) for count in (20, 25, 30, len(words))]
    shares = [(count - 12) / (len(words) - 12) for count in (20, 25, 30, len(words))]
    for coverage in (0.2, 0.4, 0.6, 1.0):
        thresholds = Thresholds(item_coverage=coverage)
        found = hits_of(tmp_path / str(coverage), texts, thresholds=thresholds)
        assert [row is not None for row in found] == [share >= coverage for share in shares]
        assert [row["coverage"] for row in found if row] == pytest.approx([s for s in shares if s >= coverage])


def test_ngrams_item_spread_over_paragraphs_of_other_text_is_found(tmp_path):
    words, filler = ITEM.split(), " ".join(f"filler{number}" for number in range(60))
    spread = f"{filler} {' '.join(words[:22])}\n\n{filler} {' '.join(words[22:])}"
    assert hits_of(tmp_path, [spread], thresholds=Thresholds(item_coverage=0.5))[0]["benchmark"] == "held"


def test_ngrams_item_in_script_without_spaces_is_found(tmp_path):
    thai = "ประเทศไทยมีเมืองหลวงชื่อกรุงเทพมหานครและมีแม่น้ำเจ้าพระยา"
    chinese = "中华人民共和国的首都是北京,它位于华北平原的北部。"
    for name, item in (("th", thai), ("zh", chinese)):
        found = hits_of(tmp_path / name, [f"{item}\n\n{UNRELATED}", UNRELATED], item=item)
        assert [row is not None for row in found] == [True, False]


def test_ngrams_feature_spread_over_three_sources_is_boilerplate_with_evidence(tmp_path):
    def run(name, num_sources):
        root = tmp_path / name
        benchmark = suite(root, "held", [ITEM])
        sources = [
            write_documents(root, f"s{number}", [f"{ITEM}\n\ncopy {number} {copy}" for copy in range(6 // num_sources)])
            for number in range(num_sources)
        ]
        rule = Boilerplate(documents=6, sources=3, source_documents=10**9)
        return decontaminate(root / "out", sources, [benchmark], boilerplate=rule)

    result, tables = run("three", 3)
    assert result.features_dropped == result.features > 20 and not any(tables.values())
    evidence = read_table(str(tmp_path / "three/out/evidence"), "boilerplate.parquet").to_pylist()
    assert [evidence[0][f"documents:s{number}"] for number in range(3)] == [2, 2, 2]
    assert all(row["everywhere"] and row["text"] in ITEM.lower() for row in evidence)
    result, tables = run("one", 1)
    assert result.features_dropped == 0 and len(tables["s0"]) == 6


def test_ngrams_feature_frequent_in_one_source_is_dropped_for_documents_but_not_for_packages(tmp_path):
    prompt = read_package_benchmark(HUMANEVAL)[0].text
    texts = [f"{ITEM}\n\n{prompt}\n\ncopy number {number}" for number in range(12)]
    source = write_documents(tmp_path, "web", texts)
    rule = Boilerplate(documents=10**9, source_documents=12, source_fraction=0.5)
    result, tables = decontaminate(
        tmp_path / "out", [source], [suite(tmp_path, "held", [ITEM])], package_benchmarks=(HUMANEVAL,), boilerplate=rule
    )
    assert result.contaminated_by_benchmark["held"] == 0
    assert {row["benchmark"] for row in tables["web"].values()} == {"humaneval/prompt"} and len(tables["web"]) == 12
    assert result.features_dropped_in_source == {"web": result.features_by_benchmark["held"]}


def test_ngrams_seams_of_boilerplate_are_not_judged(tmp_path):
    header = "licensed under the made up licence you may not use this file except in compliance with the terms below"
    item = f"Copyright 2024 the authors {header}"
    copies = [f"Copyright {2000 + number} the authors {header}\n\nbody {number}" for number in range(12)]
    seam = f"Copyright 2024 the authors {header}\n\nbody of its own"
    rule = Boilerplate(documents=10**9, source_documents=12, source_fraction=0.0)
    found = hits_of(tmp_path, [*copies, seam], item=item, boilerplate=rule)
    assert found == [None] * 13


def test_ngrams_feature_of_two_benchmarks_is_attributed_to_both(tmp_path):
    source = write_documents(tmp_path, "web", [ITEM + " Truly.", UNRELATED])
    benchmarks = [suite(tmp_path, "first", [ITEM]), suite(tmp_path, "second", [f"{ITEM} Another end."])]
    result, tables = decontaminate(tmp_path / "out", [source], benchmarks)
    assert [row["benchmark"] for row in tables["web"].values()] == ["first,second"]
    assert result.contaminated_by_benchmark == {"first": 1, "second": 1}
    items = read_table(str(tmp_path / "out"), "hits_by_item.parquet").to_pylist()
    assert [(row["benchmark"], row["documents"]) for row in items] == [("first", 1), ("second", 1)]
    assert items[0]["best_coverage"] == 1.0 and 0.5 < items[1]["best_coverage"] < 1.0


def test_ngrams_nested_source_names_keep_apart(tmp_path):
    outer = write_documents(tmp_path, "finepdfs", [ITEM, UNRELATED, "first words of it"], num_shards=2)
    inner = write_documents(tmp_path, "finepdfs/en", [ITEM + " Twice.", UNRELATED])
    result, tables = decontaminate(tmp_path / "out", [outer, inner], [suite(tmp_path, "held", [f"{ITEM} Third."])])
    assert result.contaminated == {"finepdfs": 1, "finepdfs/en": 1}
    assert set(tables["finepdfs"]) == {document_id(ITEM)} and set(tables["finepdfs/en"]) == {
        document_id(ITEM + " Twice.")
    }


def test_ngrams_held_out_documents_themselves_are_left_to_the_heldout_table(tmp_path):
    near = ITEM + " With a new end."
    source = write_documents(tmp_path, "web", [ITEM, near, UNRELATED])
    result, tables = decontaminate(tmp_path / "out", [source], [suite(tmp_path, "held", [ITEM])])
    assert result.documents_skipped == {"web": 1} and set(tables["web"]) == {document_id(near)}


def test_ngrams_document_that_equals_one_of_a_test_set_from_elsewhere_is_contaminated(tmp_path):
    """It has the same id, as a held-out document has; but no table takes it out of training."""
    source = write_documents(tmp_path, "web", [ITEM, *(f"{ITEM} Copy {number}." for number in range(30)), UNRELATED])
    often = Boilerplate(documents=10**9, sources=10**9, source_documents=5, source_fraction=0.0)
    result, tables = decontaminate(
        tmp_path / "out", [source], [suite(tmp_path, "exam", [ITEM], held_out=False)], boilerplate=often
    )
    assert result.documents_skipped == {"web": 0} and result.contaminated == {"web": 31}
    assert tables["web"][document_id(ITEM)]["coverage"] == 1.0
    result, _ = decontaminate(tmp_path / "held", [source], [suite(tmp_path, "held", [ITEM])], boilerplate=often)
    assert result.documents_skipped == {"web": 1} and result.contaminated == {"web": 0}  # frequent in its own source


def word_ngrams(passage):
    words = "".join(c for c in passage.lower() if c.isalnum() or c.isspace()).split()
    return {tuple(words[i : i + 13]) for i in range(len(words) - 12)}


def test_ngrams_real_quotation_with_edits_gives_every_shared_ngram(tmp_path):
    """lsqr.py of scipy quotes the warranty of a BSD licence, which click ships with other words in two places."""
    licence = next(f for f in importlib.metadata.files("click") if f.name == "LICENSE.txt").locate().read_text()
    text = Path(
        str(importlib.metadata.distribution("scipy").locate_file("scipy/sparse/linalg/_isolve/lsqr.py"))
    ).read_text()
    warranty = licence[licence.index("THIS SOFTWARE IS") :]
    quoted = word_ngrams(text[text.index("THIS SOFTWARE IS") : text.index("The Fortran code")])
    shared = word_ngrams(warranty) & quoted
    assert 80 < len(shared) < len(quoted)
    [row] = hits_of(tmp_path, [text], item=warranty, boilerplate=OFF)
    assert row["num_hits"] == len(shared)
    assert row["max_overlap"] == pytest.approx(len(shared) / len(quoted))


def test_ngrams_bytes_do_not_depend_on_the_order_of_work(tmp_path):
    class Backwards:
        def __init__(self, out):
            self.path, self.file, self.step_name, self.out = out.path, out.file, "x", out

        def map_shards(self, fn, items, *, cpus=1):
            done = self.out.map_shards(fn, dict(reversed(items.items())))
            return {name: done[name] for name in items}

    texts = [f"{ITEM} {number}" if number % 3 else f"{UNRELATED} {number}" for number in range(40)]
    source = write_documents(tmp_path, "web", texts, num_shards=5)
    config = DecontaminateConfig(
        sources=(source,), documents_benchmarks=(suite(tmp_path, "held", [ITEM]),), boilerplate=OFF
    )
    trees = []
    for name, order in (("a", lambda out: out), ("b", Backwards)):
        (tmp_path / name).mkdir()
        find_contaminated(config, order(DirectoryOut(tmp_path / name)))
        root = tmp_path / name
        trees.append({str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()})
    assert trees[0] == trees[1] and len(trees[0]) == 5 + 5 + 5
    samples = json.loads(trees[0]["flagged_samples.json"])
    assert len(samples["held"]) == 20
    for sample in samples["held"]:
        assert "passage alone" in sample["matched_text"]
        for passage in (sample["paragraph"], sample["item"]):
            [(first, after)] = passage["marks"]
            assert passage["text"][first:after] == ITEM.removesuffix(".")


def test_ngrams_verdicts_do_not_depend_on_shards(tmp_path):
    texts = [f"{ITEM} {number}" if number % 3 else f"{UNRELATED} {number}" for number in range(40)]
    runs = []
    for shards in (1, 7):
        root = tmp_path / str(shards)
        source = write_documents(root, "web", texts, num_shards=shards)
        result, tables = decontaminate(root / "out", [source], [suite(root, "held", [ITEM])], boilerplate=OFF)
        samples = json.loads((root / "out/flagged_samples.json").read_text())
        runs.append((tables, samples, result.features_met, result.features_checked))
    assert runs[0] == runs[1] and len(runs[0][0]["web"]) == 26


def test_ngrams_scan_in_another_process_finds_the_same(tmp_path):
    """The index is made anew where a shard is scanned: hashes may not depend on the process."""
    source = write_documents(tmp_path, "web", [f"{ITEM} Copied.", UNRELATED])
    benchmark = suite(tmp_path, "held", [ITEM])
    decontaminate(tmp_path / "out", [source], [benchmark])
    script = (
        "import sys; sys.path.insert(0, sys.argv[4]); from pathlib import Path; from directory_out import DirectoryOut\n"
        "from steps.decontaminate.benchmarks import DocumentsBenchmark as B; from steps.decontaminate.scan import *\n"
        "documents, held, root, _ = sys.argv[1:]; Path(root).mkdir()\n"
        "suite = Suite(packages=(), items=(), documents=(B(name='held', path=held),), ngram_words=13, shortest_words=3,"
        " shortest_run_words=8)\n"
        "task = ScanTask('web', documents, 'part-00000.parquet', suite)\n"
        "DirectoryOut(Path(root)).map_shards(scan_shard, {'web': task})\n"
    )
    arguments = [source.path, benchmark.path, str(tmp_path / "there"), str(Path(directory_out.__file__).parent)]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, env={**os.environ, "PYTHONHASHSEED": "5"})
    name = "evidence/matches/web/part-00000.parquet"
    assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    assert read_table(str(tmp_path / "there/evidence/matches/web"), "part-00000.parquet").num_rows == 29


def slow_judge(texts, records, n, shortest, overlap, min_hits, coverage):
    """Returns {document number: (max overlap, coverage, number of distinct hits)}, with tuples, sets and loops."""

    def paragraphs(text):
        found = [paragraph.split() for paragraph in text.split("\n\n")]
        if all(len(paragraph) < shortest for paragraph in found):
            found = [[word for paragraph in found for word in paragraph]]
        return found

    def features(words):
        runs = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        if shortest <= len(words) < n:
            runs = [("whole", *words)]
        return [run for run in runs if any(word.isalpha() and word != "whole" for word in run)]

    items = []
    for text in records:
        all_features = [feature for words in paragraphs(text) for feature in features(words)]
        long = {feature for feature in all_features if feature[0] != "whole"}
        everything = [word for words in paragraphs(text) for word in words]
        across = {feature for feature in features(everything) if len(everything) >= n}
        items.append((long or set(all_features)) | across)
    wanted = set().union(*items)
    verdicts = {}
    for number, text in enumerate(texts):
        bad, hits, best = [], {}, 0
        for place, words in enumerate(paragraphs(text)):
            mine = Counter(features(words))
            hits[place] = {feature for feature in mine if feature in wanted}
            share = sum(mine[feature] for feature in hits[place]) / max(1, sum(mine.values()))
            if share >= overlap and len(hits[place]) >= (1 if sum(mine.values()) == 1 else min_hits):
                bad.append((share, place))
        everywhere = set().union(*hits.values())
        counted = set().union(*(hits[place] for _, place in bad))
        for item in items:
            held = item & everywhere
            if item and len(held) / len(item) >= coverage and len(held) >= min(min_hits, len(item)):
                counted |= held
        if counted:
            best = max(len(item & everywhere) / len(item) for item in items if item & counted)
            verdicts[number] = (max(bad)[0] if bad else None, best, len(counted))
    return verdicts


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "7"]), max_size=10).map(" ".join)
PARAGRAPHS = st.lists(WORDS, min_size=1, max_size=3).map("\n\n".join).filter(str.strip)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(PARAGRAPHS, min_size=1, max_size=8, unique=True),
    st.lists(PARAGRAPHS, min_size=1, max_size=3, unique=True),
    st.sampled_from([0.25, 0.5, 1.0]),
    st.sampled_from([1, 2]),
    st.sampled_from([0.3, 0.6, 1.0]),
)
def test_ngrams_equals_a_plain_python_judge(tmp_path_factory, texts, records, overlap, min_hits, coverage):
    root = tmp_path_factory.mktemp("oracle")
    texts = [text for text in texts if text not in records]
    source = write_documents(root, "web", texts, num_shards=2)
    _, tables = decontaminate(
        root / "out",
        [source],
        [suite(root, "held", records, short=True)],
        ngram_words=4,
        shortest_words=2,
        thresholds=Thresholds(overlap=overlap, min_hits=min_hits, item_coverage=coverage),
        boilerplate=OFF,
    )
    expected = slow_judge(texts, records, 4, 2, overlap, min_hits, coverage)
    found = {texts.index(text): tables["web"].get(document_id(text)) for text in texts}
    assert {number for number, row in found.items() if row} == set(expected)
    for number, (share, held, distinct) in expected.items():
        assert share is None or found[number]["max_overlap"] == pytest.approx(share)
        assert found[number]["coverage"] == pytest.approx(held)
        assert found[number]["num_hits"] == distinct


def test_ngrams_table_has_the_agreed_columns(tmp_path):
    source = write_documents(tmp_path, "web", [UNRELATED])
    decontaminate(tmp_path / "out", [source], [suite(tmp_path, "held", [ITEM])])
    schema = read_table(str(tmp_path / "out/web"), "part-00000.parquet").schema
    assert schema.names == ["id", "benchmark", "max_overlap", "coverage", "num_hits", "example"]
    assert schema.field("max_overlap").type == pa.float32()
