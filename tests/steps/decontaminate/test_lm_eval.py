"""Items that lm-eval-harness carries: the layouts of its files, and, where the package can be fetched, the real ones."""

import dataclasses
import json
import re

import pytest

from marin_exec import ConfigError, IdentityMismatch, StepFailed
from steps.decontaminate.index import build_index, check_required
from steps.decontaminate.item_fields import item_records
from steps.decontaminate.items import read_items
from steps.decontaminate.lm_eval import (
    GSM8K_FEWSHOT,
    KMMLU_DEV,
    MMLU_DEV,
    VERSION,
    LmEvalConfig,
    lm_eval_items,
    read_suite,
)
from steps.sources.packages import Package, fetched
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import decontaminate, write_documents

PROMPTS = {
    "anatomy": (
        "The following are multiple choice questions about anatomy.\n\n"
        "Q: Which bone\n\nis meant here?\n(A) The first (B) The second (of two)\nA: Let's think. The answer is (B).\n\n"
        "Q: And which muscle?\n(A) None (B) All\nA: It is (A)."
    )
}
SAMPLES = """\
dataset_name: {name}
process_docs: !function utils.process_docs
fewshot_config:
  sampler: first_n
  samples:
  - input_question: "\\u0E15\\u0E49\\u0E19 {name}?"
    input_choice_list: {{A: eins, B: zwei}}
  - input_question: second of {name}
    input_choice_list: {{A: one, B: two}}
"""


def checksum_of(folder, suite):
    with pytest.raises(IdentityMismatch, match="have checksum") as error:
        read_suite(folder, dataclasses.replace(suite, checksum="0" * 32))
    return re.search(r"have checksum (\w+)", str(error.value))[1]


@pytest.fixture
def package(tmp_path):
    """A folder laid out as the package is, and two suites for it."""
    english, german = MMLU_DEV[0], MMLU_DEV[1]
    prompts = tmp_path / english.files
    prompts.parent.mkdir(parents=True)
    prompts.write_text(json.dumps(PROMPTS))
    tasks = (tmp_path / german.files).parent
    tasks.mkdir(parents=True)
    for name in ("anatomy", "law"):
        (tasks / f"mmlu_de_{name}.yaml").write_text(SAMPLES.format(name=name))
    (tasks / "_mmlu_de_group.yaml").write_text("group: all\n")
    return tmp_path, [
        dataclasses.replace(suite, checksum=checksum_of(tmp_path, suite), expected_items=count)
        for suite, count in ((english, 2), (german, 4))
    ]


def test_lm_eval_reads_prompts_and_samples(package, tmp_path):
    folder, suites = package
    (tmp_path / "out").mkdir()
    result = lm_eval_items(LmEvalConfig(suites=tuple(suites), folder=str(folder)), DirectoryOut(tmp_path / "out"))
    assert result.items == {"mmlu-dev/en": 2, "mmlu-dev/de": 4} and result.records == 2 * 3 + 4 * 2
    records = {(record.benchmark, record.name): record.text for record in read_items(str(tmp_path / "out"))}
    assert records["mmlu-dev/en/question", "anatomy/1"] == "Which bone\n\nis meant here?"
    assert records["mmlu-dev/en/item", "anatomy/1"].endswith("A. The first\nB. The second (of two)")
    assert records["mmlu-dev/en/answer", "anatomy/2"] == "It is (A)."
    assert records["mmlu-dev/de/item", "mmlu_de_law/1"] == "ต้น law?\nA. eins\nB. zwei"


def test_lm_eval_other_files_or_another_number_are_refused(package):
    folder, (english, german) = package
    with pytest.raises(StepFailed, match=r"4 items in .*, 5 expected"):
        read_suite(folder, dataclasses.replace(german, expected_items=5))
    (folder / german.files).with_name("mmlu_de_more.yaml").write_text(SAMPLES.format(name="more"))
    with pytest.raises(IdentityMismatch, match=f"suite mmlu-dev/de: the 3 files .* not {german.checksum}"):
        read_suite(folder, german)
    (folder / english.files).unlink()
    with pytest.raises(IdentityMismatch, match="suite mmlu-dev/en: the 0 files"):
        read_suite(folder, english)


def test_lm_eval_prompt_of_another_form_is_named(package):
    folder, (english, _) = package
    (folder / english.files).write_text(json.dumps({"law": "Intro.\n\nQ: Who?\nA: nobody"}))
    with pytest.raises(StepFailed, match="item 1 of law is not question, choices"):
        read_suite(folder, dataclasses.replace(english, checksum=checksum_of(folder, english)))


def test_lm_eval_config_takes_each_suite_once():
    for suites in ((), (KMMLU_DEV, KMMLU_DEV)):
        with pytest.raises(ConfigError, match="each name once"):
            LmEvalConfig(suites=suites)


def fetched_or_skip(package):
    try:
        return fetched(package).path
    except StepFailed as error:
        pytest.skip(f"the package cannot be fetched: {error}")


@pytest.mark.slow
def test_lm_eval_passage_that_a_fortune_quotes_is_found(tmp_path):
    """The one natural hit that is known: Thomas Paine's creed, in a collection of quotations and in an item of MMLU."""
    fortunes = fetched_or_skip(Package(registry="debian", name="fortunes"))
    fetched_or_skip(Package(registry="pypi", name="lm-eval", version=VERSION))
    text = next(fortunes.rglob("fortunes/cookie")).read_text("utf-8", "replace")
    entries = [entry.strip("\n") for entry in re.split(r"(?m)^%\s*$", text)]
    source = write_documents(tmp_path, "fortunes", [entry for entry in entries if entry.strip()])
    (tmp_path / "suite").mkdir()
    lm_eval_items(LmEvalConfig(suites=(MMLU_DEV[0],)), DirectoryOut(tmp_path / "suite"))
    result, tables = decontaminate(tmp_path / "out", [source], [], suites=(str(tmp_path / "suite"),))
    [row] = tables["fortunes"].values()
    assert result.documents_in["fortunes"] > 1000
    assert row["example"].endswith(":high_school_european_history/5")
    assert row["num_hits"] == 31 and row["max_overlap"] == pytest.approx(31 / 33)


@pytest.mark.slow
def test_lm_eval_suites_are_complete_and_every_required_item_yields_a_feature():
    folder = fetched_or_skip(Package(registry="pypi", name="lm-eval", version=VERSION))
    records = []
    for suite in (*MMLU_DEV, KMMLU_DEV, GSM8K_FEWSHOT):
        items = read_suite(folder, suite)
        assert len({name for name, _ in items}) == len(items)
        records += [record for name, item in items for record in item_records(suite.name, name, item, suite.fields)]
    index = build_index(records, 13, 3, 8)
    check_required(index)
    assert sum(record.required for record in records) == 282 + 7 * 285 + 225 + 8
