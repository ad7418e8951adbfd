"""The comparison of two runs, and the passages of flagged documents, made by the steps from a real run."""

import json

import pytest

from marin_exec import ConfigError, StepFailed
from steps.decontaminate.compare import CompareConfig, compare
from steps.decontaminate.rules import Boilerplate, Thresholds
from steps.documents import document_id, read_table
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import decontaminate, suite, write_documents

WORDS = [f"word{number}" for number in range(40)]
ITEM = f"from here on {' '.join(WORDS)}"
FILLER = " ".join(f"filler{number}" for number in range(100))
OFF = Boilerplate(documents=10**9, source_documents=10**9)


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs the stage under a name; a web source and a mail source hold the item."""
    sources = [
        write_documents(tmp_path, "web", [f"{ITEM} Copied.", f"{FILLER} {ITEM}", FILLER]),
        write_documents(tmp_path, "mail", [f"From me: {ITEM}"]),
    ]
    benchmarks = [suite(tmp_path, "held", [ITEM]), suite(tmp_path, "other", [" ".join(WORDS)])]

    def make(name, **options):
        decontaminate(tmp_path / name, sources, benchmarks, boilerplate=OFF, **options)
        return str(tmp_path / name)

    return make


def test_compare_names_every_document_that_changed(run, tmp_path):
    strict, default = run("strict", thresholds=Thresholds(item_coverage=None)), run("default")
    for name in ("changes", "back", "same"):
        (tmp_path / name).mkdir()
    sources = ("web", "mail")
    result = compare(CompareConfig(before=strict, after=default, sources=sources), DirectoryOut(tmp_path / "changes"))
    embedded = document_id(f"{FILLER} {ITEM}")
    assert result.found == {"web": 1, "mail": 0} and result.lost == {"web": 0, "mail": 0}
    assert result.before == {"web": 1, "mail": 1} and result.found_by_benchmark == {"held": 1, "other": 1}
    [row] = read_table(str(tmp_path / "changes"), "changes.parquet").to_pylist()
    assert (row["id"], row["change"], row["benchmark_before"], row["benchmark_after"]) == (
        embedded,
        "found",
        None,
        "held,other",
    )
    assert row["coverage_after"] == 1.0
    back = compare(CompareConfig(before=default, after=strict, sources=sources), DirectoryOut(tmp_path / "back"))
    assert back.lost == result.found and back.lost_by_benchmark == result.found_by_benchmark
    same = compare(CompareConfig(before=default, after=default, sources=sources), DirectoryOut(tmp_path / "same"))
    assert not any([*same.found.values(), *same.lost.values(), *same.other_benchmarks.values()])


def test_compare_tells_other_benchmarks_apart(tmp_path):
    source = write_documents(tmp_path, "web", [f"{ITEM} Copied."])
    names = (["held"], ["held", "other"])
    for benchmarks in names:
        suites = [suite(tmp_path, name, [ITEM]) for name in benchmarks]
        decontaminate(tmp_path / str(len(benchmarks)), [source], suites, boilerplate=OFF)
    (tmp_path / "changes").mkdir()
    config = CompareConfig(before=str(tmp_path / "1"), after=str(tmp_path / "2"), sources=("web",))
    result = compare(config, DirectoryOut(tmp_path / "changes"))
    assert result.other_benchmarks == {"web": 1} and result.found_by_benchmark == {"other": 1}


def test_compare_refuses_bad_sources(run, tmp_path):
    with pytest.raises(ConfigError, match="each once"):
        CompareConfig(before="a", after="b", sources=("web", "web"))
    made = run("run")
    with pytest.raises(StepFailed, match="none: no part"):
        compare(CompareConfig(before=made, after=made, sources=("none",)), DirectoryOut(tmp_path))


def test_samples_show_the_paragraph_with_most_hits_and_begin_near_the_shared_words(tmp_path):
    long = f"{FILLER}\n\n{' '.join(WORDS)}\n\n{FILLER} end"
    copy = f"{' '.join(WORDS[:14])}\n\nOf it: {' '.join(WORDS)}"
    source = write_documents(tmp_path, "web", [copy])
    decontaminate(tmp_path / "run", [source], [suite(tmp_path, "held", [long])], boilerplate=OFF)
    [sample] = json.loads((tmp_path / "run/flagged_samples.json").read_text())["held"]
    assert sample["max_overlap"] == 1.0  # of the first paragraph, which has two features only
    assert sample["paragraph"] == {
        "text": f"Of it: {' '.join(WORDS)}",
        "marks": [[7, 7 + len(" ".join(WORDS))]],
        "cut": False,
    }
    [(first, after)] = sample["item"]["marks"]
    assert sample["item"]["cut"] and first == 200
    assert sample["item"]["text"][first:after] == " ".join(WORDS)
