"""Benchmark items and filler text by language, for the figures of decontamination."""

import functools
import re
import zipfile
from pathlib import Path

from benchmarks.data._corpora import normalised
from steps.contract import read_all_documents
from steps.decontaminate.benchmarks import HUMANEVAL, read_package_benchmark
from steps.decontaminate.item_fields import item_records
from steps.decontaminate.lm_eval import GSM8K_FEWSHOT, KMMLU_DEV, MMLU_DEV, VERSION, read_suite
from steps.decontaminate.records import Record
from steps.sources.packages import Package, fetched

_MESSAGE = re.compile(r"(?m)^ *\.?[\w-]+ *= *(.*(?:\n +[^.\s*\[}].*)*)")
_SCRIPT = {"th": "[ก-๛]", "zh": "[一-鿿]", "ko": "[가-힣]", "ar": "[ء-ي]"}
_LOCALE = {"th": "th", "zh": "zh-cn", "ko": "ko", "ar": "ar"}
UNSPACED = ("th", "zh")
_NUM_ITEMS = 200  # of the languages without a benchmark in a package


@functools.cache
def suite_records() -> tuple[Record, ...]:
    """Returns the texts of all suites: HumanEval, and the dev sets that lm-eval-harness carries."""
    folder = fetched(Package(registry="pypi", name="lm-eval", version=VERSION)).path
    records = read_package_benchmark(HUMANEVAL)
    for suite in (*MMLU_DEV, KMMLU_DEV, GSM8K_FEWSHOT):
        for name, item in read_suite(folder, suite):
            records += item_records(suite.name, name, item, suite.fields)
    return tuple(records)


@functools.cache
def messages(language: str) -> tuple[str, ...]:
    """Returns the messages of Firefox in a language that are long enough for a short item (8 words), in the order of its files."""
    folder = fetched(Package(registry="debian", name=f"firefox-esr-l10n-{_LOCALE[language]}")).path
    found: dict[str, None] = {}
    for package in sorted(Path(folder).rglob("*.xpi")):
        with zipfile.ZipFile(package) as archive:
            for name in sorted(each for each in archive.namelist() if each.endswith(".ftl")):
                for message in _MESSAGE.findall(archive.read(name).decode()):
                    text = " ".join(re.sub(r"\{[^}]*\}|<[^>]*>", "", message).split())
                    long = len(re.findall(_SCRIPT[language], text)) >= 25
                    if long and (language in UNSPACED or len(text.split()) >= 8):
                        found[text] = None
    return tuple(found)


def items(language: str) -> list[Record]:
    """Returns the items that are injected: a benchmark's where a package has one, else messages (Chinese, Arabic)."""
    names = {"en": ("mmlu-dev/en/item", "humaneval/prompt"), "th": ("mmlu-dev/th/item",), "ko": ("kmmlu-dev/item",)}
    if language in names:
        return [record for record in suite_records() if record.benchmark in names[language]]
    return [
        Record(benchmark=f"messages/{language}", name=str(number), text=text, short=True, keeps_frequent=True)
        for number, text in enumerate(messages(language)[:_NUM_ITEMS])
    ]


@functools.cache
def filler(language: str) -> tuple[str, ...]:
    """Returns texts of a language that are not among the items: what items are put into."""
    if language == "en":
        return tuple(read_all_documents(normalised(["brown"])["brown"], ["text"])["text"].to_pylist())
    return messages(language)[_NUM_ITEMS:]
