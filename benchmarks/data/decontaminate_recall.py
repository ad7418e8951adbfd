"""Decontamination: benchmark items that were injected are found, and nothing else is, on the whole corpora.

Items in five languages are put into documents in several ways; a copy counts as found when the document is, with the item named.
The paraphrase is made by rule: every sixth word changes places with the next, and every eighth is another word of the item. Recall
of it is printed without a bar: n-grams do not find paraphrases.
"""

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.data._corpora import normalised
from benchmarks.data._suites import UNSPACED, filler, items, suite_records
from benchmarks.figures import Figures
from steps.decontaminate.features import batches
from steps.decontaminate.index import FeatureIndex, build_index
from steps.decontaminate.judge import Verdict, judge_matches
from steps.decontaminate.records import Record
from steps.decontaminate.rules import Thresholds
from steps.decontaminate.scan import find_matches, utf8
from steps.decontaminate.words import encoded
from steps.documents import read_table, shard_names

LANGUAGES = ("en", "th", "zh", "ko", "ar")
CREED = "I do not believe in the creed professed by the Jewish Church"
"""Thomas Paine's, which a fortune quotes, and an item of MMLU: the one natural hit that is known."""


def units(text: str, language: str) -> list[str]:
    """Returns what lines are broken between: words, or characters where no spaces are written."""
    return list(text) if language in UNSPACED else text.split()


def joined(parts: list[str], language: str) -> str:
    return ("" if language in UNSPACED else " ").join(parts)


def wrapped(text: str, language: str) -> str:
    parts, width = units(text, language), 24 if language in UNSPACED else 8
    return "\n".join(joined(parts[first : first + width], language) for first in range(0, len(parts), width))


def embedded(text: str, language: str, times: int, draw: random.Random) -> str:
    """The item inside one paragraph, with `times` its length of other text around it."""
    size = len(units(text, language)) * times
    around: list[str] = []
    while len(around) < size + 8:
        around += units(draw.choice(filler(language)), language)
    start = draw.randrange(len(around) - size)
    before, after = around[start : start + size // 2], around[start + size // 2 : start + size]
    return f"{joined(before, language)} {' '.join(text.split())} {joined(after, language)}"


def paraphrased(text: str, language: str, draw: random.Random) -> str:
    parts = units(text, language)
    other = list(parts)
    for place in range(5, len(parts) - 1, 6):
        other[place], other[place + 1] = other[place + 1], other[place]
    for place in range(7, len(parts), 8):
        other[place] = draw.choice(parts)
    return joined(other, language)


Way = Callable[[str, str, random.Random], str]
WAYS: dict[str, tuple[Way, float | None]] = {
    "verbatim": (lambda text, language, draw: text, 0.98),
    "verbatim, between paragraphs": (
        lambda text, language, draw: f"{draw.choice(filler(language))}\n\n{text}\n\n{draw.choice(filler(language))}",
        0.98,
    ),
    "wrapped": (lambda text, language, draw: wrapped(text, language), 0.95),
    "prefixed": (lambda text, language, draw: f"Question: {text}", 0.95),
    "commented out": (lambda text, language, draw: "\n".join(f"# {line}" for line in text.split("\n")), 0.95),
    "embedded in 1x": (lambda text, language, draw: embedded(text, language, 1, draw), 0.95),
    "embedded in 4x": (lambda text, language, draw: embedded(text, language, 4, draw), 0.95),
    "paraphrased by rule": (paraphrased, None),
}


def find(index: FeatureIndex, data: np.ndarray, offsets: np.ndarray) -> pa.Table:
    """Returns the matches of texts, numbered in their order."""
    tables = [
        find_matches(index, data, offsets[first : last + 1], np.arange(first, last))[0]
        for first, last in batches(np.diff(offsets).tolist())
    ]
    return pa.concat_tables(tables)


def judge(index: FeatureIndex, table: pa.Table, thresholds: Thresholds) -> list[Verdict]:
    return judge_matches(index, table, np.zeros(len(index.hashes), dtype=bool), thresholds)


def recall(figures: Figures, language: str, records: list[Record]) -> None:
    index = build_index(records, 13, 3, 8)
    for name, (make, bar) in WAYS.items():
        draw = random.Random(0)
        texts = [make(record.text, language, draw) for record in records]
        table = find(index, *encoded(texts))
        for rule, thresholds in (("", Thresholds()), (", by paragraphs alone", Thresholds(item_coverage=None))):
            if rule and not name.startswith("embedded"):
                continue
            found = {verdict.row: verdict.example for verdict in judge(index, table, thresholds)}
            named = sum(found.get(row) == f"{each.benchmark}:{each.name}" for row, each in enumerate(records))
            figure = f"recall, {language}, {len(records)} items, {name}{rule}"
            figures.add(figure, named / len(records), "share", at_least=None if rule else bar)


def precision(figures: Figures) -> None:
    """What is flagged on the corpora, into which nothing was injected."""
    records = suite_records()
    indexes = {words: build_index(records, words, 3, 8) for words in (13, 8)}
    num_documents, flagged, creed_hits, eight, eight_flagged = 0, [], [], 0, 0
    others = {
        "item_coverage=0.2": Thresholds(item_coverage=0.2),
        "by paragraphs alone": Thresholds(item_coverage=None),
        "absolute_hits=8": Thresholds(item_coverage=None, absolute_hits=8),
    }
    by_rule = dict.fromkeys(others, 0)
    for source, path in normalised().items():
        for shard in shard_names(path):
            texts = read_table(path, shard, ["text"])["text"]
            num_documents += len(texts)
            data, offsets = utf8(texts)
            found = find(indexes[13], data, offsets)
            for verdict in judge(indexes[13], found, Thresholds()):
                text = texts[verdict.row].as_py()
                if CREED in " ".join(text.split()):
                    creed_hits.append(verdict)
                else:
                    flagged.append((source, verdict, text[:200]))
            for name, thresholds in others.items():
                by_rule[name] += len(judge(indexes[13], found, thresholds))
            short = find(indexes[8], data, offsets)
            eight += len(set(short["row"].to_pylist()))
            eight_flagged += len(judge(indexes[8], short, Thresholds()))
    for source, verdict, text in flagged:
        print(
            f"flagged: {source}, {verdict.example}, {verdict.num_hits} hits, coverage {verdict.coverage:.2f}: {text!r}"
        )
    figures.add("documents of the corpora scanned", num_documents, "documents", at_least=100_000)
    figures.add("the fortune that quotes an MMLU passage, found", len(creed_hits), "documents", at_least=1)
    hits = max((verdict.num_hits for verdict in creed_hits), default=0)
    figures.add("13-grams that it shares with the item", hits, "n-grams", at_least=31)
    figures.add("documents with a shared 8-gram", eight, "documents", at_least=100)
    figures.add("documents that 8-grams would flag", eight_flagged, "documents")
    for name, count in by_rule.items():
        figures.add(f"documents flagged, the fortune included, {name}", count, "documents")
    rate = 100_000 * len(flagged) / num_documents
    figures.add("other documents flagged by 13-grams, of 100,000", rate, "documents", at_most=1)


def main() -> int:
    figures = Figures()
    for language in LANGUAGES:
        recall(figures, language, items(language))
    precision(figures)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
