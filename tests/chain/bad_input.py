"""A good source beside six bad ones, and a benchmark whose file is not where its package should have it."""

from dataclasses import dataclass, replace

from marin_exec import Step, main
from steps.decontaminate.benchmarks import HUMANEVAL
from steps.decontaminate.ngrams import DecontaminateConfig, find_contaminated
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.documents import NamedInput
from steps.normalize.normalize import NormalizeConfig, normalize
from steps.sources.files import FileFormat, FilesConfig, read_files

FILES = {
    "good": "good.jsonl",
    "empty": "empty.jsonl",
    "blank": "blank.jsonl",
    "latin": "latin.jsonl",
    "half": "half.jsonl",
    "cut": "cut.jsonl.gz",
    "body": "body.parquet",
    "some-blank": "some-blank.jsonl",
}


@dataclass(frozen=True)
class Params:
    folder: str = "."
    benchmark_file: str = HUMANEVAL.file


def source(name: str, folder: str) -> NamedInput:
    file = FILES[name]
    reading = FileFormat(format="parquet" if file.endswith(".parquet") else "jsonl")
    raw = Step(f"sources/{name}", read_files, FilesConfig(paths=(f"{folder}/{file}",), reading=reading))
    return NamedInput(name=name, path=Step(f"documents/{name}", normalize, NormalizeConfig(source=raw)))


def pipeline(params: Params) -> list[Step]:
    sources = tuple(source(name, params.folder) for name in FILES)
    benchmark = replace(HUMANEVAL, file=params.benchmark_file)
    decontaminate = DecontaminateConfig(sources=sources[:1], package_benchmarks=(benchmark,))
    return [
        Step("dedup/exact", exact_duplicates, ExactConfig(sources=sources)),
        Step("decontaminate", find_contaminated, decontaminate),
    ]


if __name__ == "__main__":
    main(pipeline)
