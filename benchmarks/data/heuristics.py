"""Heuristics: speed and memory of scoring, of deciding from scores, and what the limits do to good pages in 40 languages."""

import tempfile
import time
from collections import Counter

import numpy as np

from benchmarks.data._corpora import normalised
from benchmarks.data._measured import measured
from benchmarks.data._step_out import FolderOut
from benchmarks.figures import Figures
from steps.contract import read_all_documents
from steps.documents import NamedInput, read_all
from steps.heuristics.judge import HeuristicsConfig, HeuristicsResult, judge_documents
from steps.heuristics.score_documents import HeuristicScoresConfig, score_documents
from steps.heuristics.scores import score_text, score_texts
from steps.heuristics.stop_words import STOP_WORDS
from steps.language.language import LanguageConfig, identify_languages
from steps.sources.corpora import cards

SPEED_SOURCES = ("kernel-docs", "fortunes", "man-pages/ru", "libreoffice-help/ja", "wordnet-3.0", "spam-assassin")
FEWEST_WORDS = 100
"""Shorter pages are left out: that a page is short is no matter of its language."""


def main() -> int:
    figures = Figures()
    paths = normalised(SPEED_SOURCES)
    sums = np.zeros(3)
    for name in SPEED_SOURCES:
        seconds, documents, size = measured(_speed, paths[name]).value
        sums += seconds, documents, size
        figures.add(f"heuristics: megabytes scored a CPU second, {name}", size / seconds, "MB/s")
        figures.add(f"heuristics: documents scored a CPU second, {name}", documents / seconds, "documents/s")
    figures.add("heuristics: megabytes scored a CPU second, all of these", sums[2] / sums[0], "MB/s", at_least=3)
    figures.add(
        "heuristics: documents scored a CPU second, all of these", sums[1] / sums[0], "documents/s", at_least=3_000
    )
    with tempfile.TemporaryDirectory() as folder:
        few, many = (
            tuple(NamedInput(name=n, path=paths[n]) for n in names) for names in (SPEED_SOURCES[1:3], SPEED_SOURCES)
        )
        peaks = []
        for number, sources in enumerate((few, many)):
            taken = measured(_score, sources, f"{folder}/{number}")
            size = sum(taken.value.characters.values()) / 1e6
            peaks.append(taken.peak_megabytes)
            figures.add(
                f"heuristics: peak memory of scoring, {size:.0f} million characters", peaks[-1], "MB", at_most=1_500
            )
        deciding = measured(_decide, many, f"{folder}/1", f"{folder}/decided")
        rate = sum(deciding.value.documents_in.values()) / deciding.cpu_seconds
        figures.add("heuristics: documents decided from scores a CPU second", rate, "documents/s", at_least=20_000)
        _languages(figures, folder)
    return figures.exit_code


def _languages(figures: Figures, folder: str) -> None:
    """Pages of the GNOME help that are in their folder's language and not short: good text, so what goes is judged wrongly."""
    names = [name for name in cards() if name.startswith("gnome-help/")]
    sources = tuple(NamedInput(name=name, path=path) for name, path in normalised(names).items())
    identify_languages(LanguageConfig(sources=sources), FolderOut(f"{folder}/languages"))
    in_own = HeuristicsConfig(sources=sources, preset_by_source={}, languages=f"{folder}/languages")
    judge_documents(in_own, FolderOut(f"{folder}/own"))
    judge_documents(HeuristicsConfig(sources=sources, preset_by_source={}), FolderOut(f"{folder}/english"))
    own, english, total, stopped = Counter(), Counter(), Counter(), Counter()
    for source in sources:
        languages = read_all(f"{folder}/languages/{source.name}")
        table = read_all(f"{folder}/own/{source.name}")
        language = source.name.split("/")[1].split("-")[0]
        good = np.array(languages["language"].to_pylist()) == language
        good &= table["gopher_words"].to_numpy() >= FEWEST_WORDS
        total[language] += int(good.sum())
        own[language] += int(table["keep"].to_numpy()[good].sum())
        english[language] += int(read_all(f"{folder}/english/{source.name}", ["keep"])["keep"].to_numpy()[good].sum())
        stopped[language] += int((table["gopher_stop_words"].to_numpy()[good] >= 2).sum())
    measured_in = [language for language in sorted(total) if total[language] >= 20]
    figures.add("heuristics: languages with 20 pages or more", len(measured_in), "languages")
    figures.add("heuristics: pages kept, judged as English", english.total() / total.total(), "share")
    figures.add(
        "heuristics: pages kept, judged in their own language", own.total() / total.total(), "share", at_least=0.9
    )
    for language in measured_in:
        found = f"{language}: {own[language] / total[language]:.2f} kept, {english[language] / total[language]:.2f} as English"
        share = stopped[language] / total[language]
        figures.add(f"heuristics: pages with two stop words or more, {found}", share, "share", at_least=0.95)


def _speed(path: str) -> tuple[float, int, float]:
    """Returns CPU seconds, documents, and megabytes of text."""
    texts = read_all_documents(path, ["text"])["text"].to_pylist()
    score_text("to compile the kernels", STOP_WORDS["en"])
    started = time.process_time()
    score_texts(texts, [STOP_WORDS["en"]] * len(texts))
    return time.process_time() - started, len(texts), sum(len(text.encode()) for text in texts) / 1e6


def _score(sources: tuple[NamedInput, ...], out: str):
    return score_documents(HeuristicScoresConfig(sources=sources), FolderOut(out))


def _decide(sources: tuple[NamedInput, ...], scores: str, out: str) -> HeuristicsResult:
    return judge_documents(HeuristicsConfig(sources=sources, preset_by_source={}, scores=scores), FolderOut(out))


if __name__ == "__main__":
    raise SystemExit(main())
