"""The step "benchmarks/lm_eval": the items that lm-eval-harness carries in its own package, as a suite.

Its task files hold few-shot examples, which are the dev sets of public benchmarks. Nothing of the package is imported or
installed: its files are fetched by name and version, and each suite states their checksum and its number of items.

Output: `items.parquet` (see steps/decontaminate/items.py).
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import xxhash

from marin_exec import ConfigError, IdentityMismatch, Out, StepFailed, kind, runtime
from steps.config_checks import check_number
from steps.decontaminate.harness_yaml import parse_yaml
from steps.decontaminate.item_fields import ItemFields, item_records
from steps.decontaminate.items import write_items
from steps.sources.packages import Package, fetched

VERSION = "0.4.13"
_COT_ITEM = re.compile(r"Q: (?P<question>.*?)\n(?P<choices>\(A\).*?)\nA: (?P<answer>.*)", re.DOTALL)
_CHOICE = re.compile(r"\s*\([A-Z]\)\s*")


@dataclass(frozen=True, kw_only=True)
class PackageSuite:
    """Items in files of the package."""

    name: str
    """Name that hits are attributed to, e.g. "mmlu-dev/de"."""
    files: str
    """Pattern of the files' paths in the package. Task files hold items in `fewshot_config: samples:`; a JSON file of prompts
    holds them as text, "Q: ...", choices, "A: ..."."""
    fields: ItemFields
    checksum: str
    """xxh3-128 over names and contents of the files, as 32 hex digits."""
    expected_items: int

    def __post_init__(self) -> None:
        check_number(self, "expected_items", low=1)


MMLU_DEV = (
    PackageSuite(
        name="mmlu-dev/en",
        files="lm_eval/tasks/mmlu/flan_cot_fewshot/_cot_prompts.json",
        fields=ItemFields(question=("question",), choices=("choices",), answer=("answer",)),
        checksum="30ccfb89d46a849265afd1648e9fa810",
        expected_items=282,
    ),
    *(
        PackageSuite(
            name=f"mmlu-dev/{language}",
            files=f"lm_eval/tasks/llama3/instruct/mmlu_{language}/mmlu_{language}_*.yaml",
            fields=ItemFields(question=("input_question",), choices=("input_choice_list",)),
            checksum=checksum,
            expected_items=285,
        )
        for language, checksum in (
            ("de", "66561e93eb5d18bf7f72773d6a2fb7c6"),
            ("es", "52aa82675f74a0dad858216129b93204"),
            ("fr", "246c4067ce643654174d6decda94028d"),
            ("hi", "5e195b63fb3bdb054dfb39ebceb8a5a2"),
            ("it", "35ec3655b443264c45ec3ec643925e18"),
            ("pt", "5995f2698cc3cd701168f4b854f95788"),
            ("th", "1ef4cb241181272c9d2c062ae3da0536"),
        )
    ),
)
"""Five examples for each of 57 subjects (four for three of them in English), in English and seven languages."""
KMMLU_DEV = PackageSuite(
    name="kmmlu-dev",
    files="lm_eval/tasks/kmmlu/cot_hard/kmmlu_cot_hard_*.yaml",
    fields=ItemFields(question=("question",), choices=("A", "B", "C", "D"), answer=("target",)),
    checksum="ff637bf08eb44446ac65147608bcd1ee",
    expected_items=225,
)
GSM8K_FEWSHOT = PackageSuite(
    name="gsm8k-fewshot",
    files="lm_eval/tasks/gsm8k/gsm8k-cot.yaml",
    fields=ItemFields(question=("question",), answer=("target",)),
    checksum="6801a66370c60d4442b8bdbd1d41e2f8",
    expected_items=8,
)


@dataclass(frozen=True, kw_only=True)
class LmEvalConfig:
    suites: tuple[PackageSuite, ...] = (*MMLU_DEV, KMMLU_DEV, GSM8K_FEWSHOT)
    """What is taken of the package."""
    version: str = VERSION
    """Of lm-eval."""
    folder: Annotated[str, runtime] = ""
    """A folder with the unpacked package, on every machine; by default it is fetched from PyPI into the cache of packages."""

    def __post_init__(self) -> None:
        names = Counter(suite.name for suite in self.suites)
        if not names or max(names.values()) > 1:
            raise ConfigError(f"LmEvalConfig.suites: {list(names.elements())}; at least one is needed, each name once")


@dataclass(frozen=True)
class LmEvalResult:
    items: dict[str, int]
    """By suite."""
    records: int
    """Texts of items: question, item, answer."""


@kind("benchmarks/lm_eval", version=1)
def lm_eval_items(config: LmEvalConfig, out: Out) -> LmEvalResult:
    """Writes the items of all suites.

    Raises:
        IdentityMismatch: a suite's files have other bytes than those stated.
        StepFailed: a suite has another number of items, or an item lacks a field.
    """
    folder = config.folder or str(fetched(Package(registry="pypi", name="lm-eval", version=config.version)).path)
    records, counts = [], {}
    for suite in config.suites:
        items = dict(read_suite(Path(folder), suite))
        counts[suite.name] = len(items)
        for name, item in items.items():
            records += item_records(suite.name, name, item, suite.fields)
    write_items(out.file("items.parquet"), records)
    return LmEvalResult(items=counts, records=len(records))


def read_suite(folder: Path, suite: PackageSuite) -> list[tuple[str, dict[str, Any]]]:
    """Returns the items of a suite with their names, e.g. "anatomy/3".

    Raises:
        IdentityMismatch: the files are not there, or have other bytes than those stated.
        StepFailed: the number of items is not the expected one.
    """
    files = sorted(folder.glob(suite.files))
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    digest = xxhash.xxh3_128()
    for name, data in contents.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    if digest.hexdigest() != suite.checksum:
        raise IdentityMismatch(
            f"suite {suite.name}: the {len(files)} files {suite.files} in {folder} have checksum {digest.hexdigest()}, not "
            f"{suite.checksum}; use lm-eval {VERSION}, or change the checksum if they are meant to differ"
        )
    items = [item for name, data in contents.items() for item in _items(name, data)]
    if len(items) != suite.expected_items:
        raise StepFailed(
            f"suite {suite.name}: {len(items)} items in {suite.files}, {suite.expected_items} expected; the files are cut "
            f"short, or expected_items is out of date"
        )
    return items


def _items(name: str, data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    if name.endswith(".json"):
        for subject, prompts in json.loads(data).items():
            for number, part in enumerate(re.split(r"\n\n(?=Q: )", prompts)[1:], start=1):
                found = _COT_ITEM.fullmatch(part.strip())
                if found is None:
                    raise StepFailed(f"{name}: item {number} of {subject} is not question, choices (A) ..., and A: ...")
                choices = _CHOICE.split(found["choices"])[1:]
                yield f"{subject}/{number}", {**found.groupdict(), "choices": choices}
        return
    samples = (parse_yaml(data, name).get("fewshot_config") or {}).get("samples") or []
    for number, sample in enumerate(samples if isinstance(samples, list) else [], start=1):
        yield f"{Path(name).stem}/{number}", sample
