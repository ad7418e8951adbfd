"""Language identification on the GNOME help, whose folders say the language: accuracy by language and length, untranslated
pages, text in no language, and speed.

A translated page keeps paragraphs that nobody has translated yet, so what is judged is each page without the paragraphs
that the English help has too. Croatian, Serbian in Latin letters and Bosnian are one group: they are told apart by a few
words a page.
"""

import random
import re
import time
from collections import Counter

from benchmarks.data._corpora import normalised
from benchmarks.data._measured import measured
from benchmarks.figures import Figures
from steps.contract import read_all_documents
from steps.language.language import UNDETERMINED, LanguageConfig, languages_of
from steps.language.model import load_model
from steps.sources.corpora import cards

FEWEST_CHARACTERS = 40
FEWEST_CHARACTERS_OF_A_PAGE = 100
LENGTHS = (None, 400, 100, 50)
SAME = {"bs": "hr", "sr": "hr"}
CLOSE = (("da", "no"), ("pt", "gl"), ("es", "gl"), ("cs", "sk"), ("mr", "hi"), ("id", "ms"), ("uk", "ru"))
SPEED_SOURCES = ("kernel-docs", "fortunes", "man-pages/ru", "libreoffice-help/ja", "wordnet-3.0", "spam-assassin")


def main() -> int:
    figures = Figures()
    help_names = [name for name in cards() if name.startswith("gnome-help/")]
    pages = {
        name.split("/")[1]: read_all_documents(path)["text"].to_pylist()
        for name, path in normalised(help_names).items()
    }
    english = {_folded(part) for page in pages["en"] for part in _paragraphs(page)}
    texts = [
        (language, text) for language in pages for page in pages[language] if (text := _own(page, language, english))
    ]
    for length in LENGTHS:
        _accuracy(figures, texts, length)
    whole = {_folded(page) for page in pages["en"]}
    untranslated = [
        page for language in pages if language != "en" for page in pages[language] if _folded(page) in whole
    ]
    long = [page for page in untranslated if len(page) >= FEWEST_CHARACTERS_OF_A_PAGE]
    figures.add("language: whole pages in English under other languages", len(untranslated), "documents")
    figures.add(
        "language: of those with 100 characters, found to be English",
        _share(_languages(long), "en"),
        "share",
        at_least=0.99,
    )
    titles = [page for page in untranslated if len(page) < FEWEST_CHARACTERS_OF_A_PAGE]
    figures.add(
        "language: of the shorter ones, which are titles, undetermined",
        _share(_languages(titles), UNDETERMINED),
        "share",
    )
    code = read_all_documents(normalised(["stdlib-code"])["stdlib-code"])["text"].to_pylist()
    bare = [re.sub(r'""".*?"""|#.*', "", text, flags=re.DOTALL) for text in code if len(text) > 500]
    found = _languages(bare)
    figures.add("language: code without comments, English (its names and messages)", _share(found, "en"), "share")
    figures.add("language: code without comments, undetermined", _share(found, UNDETERMINED), "share")
    figures.add(
        "language: tables of numbers, undetermined",
        _share(_languages(_tables(200)), UNDETERMINED),
        "share",
        at_least=0.99,
    )
    taken = measured(_speed, list(normalised(SPEED_SOURCES).values()))
    seconds, documents, size = taken.value
    figures.add("language: documents a CPU second, mixed sources", documents / seconds, "documents/s", at_least=5_000)
    figures.add("language: megabytes a CPU second, mixed sources", size / seconds, "MB/s", at_least=5)
    figures.add("language: peak memory, model and texts", taken.peak_megabytes, "MB", at_most=1_500)
    return figures.exit_code


def _accuracy(figures: Figures, texts: list[tuple[str, str]], length: int | None) -> None:
    found = _languages([text[:length] for _, text in texts])
    by_folder: dict[str, Counter[str]] = {}
    for (folder, _), language in zip(texts, found, strict=True):
        by_folder.setdefault(folder, Counter())[SAME.get(language, language)] += 1
    wanted = {folder: SAME.get(code, code) for folder in by_folder for code in [folder.split("-")[0]]}
    rights = {folder: counts[wanted[folder]] for folder, counts in by_folder.items()}
    where = "whole pages" if length is None else f"first {length} characters"
    bar = {None: 0.95, 400: 0.95, 100: 0.94, 50: 0.92}[length]
    figures.add(f"language: right, {where}", sum(rights.values()) / len(texts), "share", at_least=bar)
    rates = {folder: rights[folder] / counts.total() for folder, counts in by_folder.items() if counts.total() >= 20}
    figures.add(f"language: right, mean of {len(rates)} languages, {where}", sum(rates.values()) / len(rates), "share")
    if length is None:
        for folder in sorted(rates, key=lambda each: rates[each]):
            if rates[folder] < 0.97:
                others = ", ".join(f"{name} {count}" for name, count in by_folder[folder].most_common(4))
                figures.add(f"language: right, {folder}, whole pages ({others})", rates[folder], "share")
        for one, other in CLOSE:
            mixed = sum(
                counts[wrong] for folder, counts in by_folder.items() for right, wrong in ((one, other), (other, one))
                if wanted[folder] == right
            )  # fmt: skip
            figures.add(f"language: {one} taken for {other} or the reverse, whole pages", mixed, "documents")


def _languages(texts: list[str]) -> list[str]:
    return languages_of(load_model(LanguageConfig.model), texts)["language"].tolist()


def _share(found: list[str], language: str) -> float:
    return found.count(language) / len(found)


def _paragraphs(page: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n|\n", page) if part.strip()]


def _folded(text: str) -> str:
    return " ".join(text.split())


def _own(page: str, language: str, english: set[str]) -> str | None:
    """The page without what the English help has too; None if hardly anything is left."""
    parts = _paragraphs(page)
    text = "\n".join(part for part in parts if language == "en" or _folded(part) not in english)
    return text if len(text) >= FEWEST_CHARACTERS else None


def _tables(count: int) -> list[str]:
    draw = random.Random(0)
    return [
        "\n".join(" ".join(str(draw.randrange(10**5)) for _ in range(6)) for _ in range(draw.randrange(3, 40)))
        for _ in range(count)
    ]


def _speed(paths: list[str]) -> tuple[float, int, float]:
    """Returns CPU seconds, documents, and megabytes of text."""
    model = load_model(LanguageConfig.model)
    languages_of(model, ["to compile the kernel"])
    texts = [text for path in paths for text in read_all_documents(path, ["text"])["text"].to_pylist()]
    started = time.process_time()
    languages_of(model, texts)
    return time.process_time() - started, len(texts), sum(len(text.encode()) for text in texts) / 1e6


if __name__ == "__main__":
    raise SystemExit(main())
