"""Scores of the published heuristic filters, one number a rule, with no decision in them.

Rules and the constants they were published with (the thresholds themselves stand in `presets`):

* Gopher quality and repetition: Rae et al. 2021, "Scaling Language Models", arXiv:2112.11446, appendix A.1.1, table A1.
* C4: Raffel et al. 2020, "Exploring the Limits of Transfer Learning", JMLR 21(140), section 2.2.
* FineWeb: Penedo et al. 2024, "The FineWeb Datasets", arXiv:2406.17557, section 3.6.
* Code: Chen et al. 2021, arXiv:2107.03374, section 3.1 (line lengths); Li et al. 2023, "StarCoder", arXiv:2305.06161,
  section 3.1 (alphanumeric fraction).

A word is what stands between white space, as in Gopher. A line is a non-blank line without its outer white space, so
that blank lines never count as repeats of each other. "Duplicate" counts the second and later occurrences, not the
first. N-gram scores are shares of the characters in words; each word counts once however many n-grams cover it, so
they end at 1. Every score is defined for every text, the empty one included.

Cost: about 2.5 MB a second on one core, most of it in the n-grams.
"""

import re
from collections.abc import Sequence

import numpy as np

BULLETS = ("•", "‣", "▶", "◀", "◦", "■", "□", "▪", "▫", "–", "-", "*", "●")
SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "।", "؟")
LINE_ENDS = (*SENTENCE_ENDS, '"', "'", "”", "’", "»", ")", ":", ";")
SHORT_LINE_CHARACTERS = 30  # FineWeb: lines of fewer characters are short
TOP_NGRAMS = (2, 3, 4)
DUPLICATE_NGRAMS = (5, 6, 7, 8, 9, 10)

SCORE_NAMES = (
    "gopher_words",
    "gopher_mean_word_length",
    "gopher_symbols_per_word",
    "gopher_bullet_lines",
    "gopher_ellipsis_lines",
    "gopher_alphabetic_words",
    "gopher_stop_words",
    "gopher_duplicate_lines",
    "gopher_duplicate_line_characters",
    "gopher_duplicate_paragraphs",
    "gopher_duplicate_paragraph_characters",
    *(f"gopher_top_{n}gram" for n in TOP_NGRAMS),
    *(f"gopher_duplicate_{n}gram" for n in DUPLICATE_NGRAMS),
    "c4_sentences",
    "c4_lorem_ipsum",
    "c4_curly_brackets",
    "fineweb_punctuated_lines",
    "fineweb_short_lines",
    "code_mean_line_characters",
    "code_longest_line_characters",
    "code_alphanumeric",
)

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n")
_SENTENCE = re.compile(r"[.!?][\"')\]]*(?:\s|$)|[。！？।؟]")


def score_text(text: str, stop_words: Sequence[str] = ()) -> dict[str, float]:
    """Returns every score of one text, by the names of `SCORE_NAMES` and in their order.

    Args:
        text: any text, also an empty one.
        stop_words: lower-case words of which `gopher_stop_words` counts how many different ones occur.

    Returns:
        Counts (words, stop words, sentences, lorem ipsum, curly brackets), lengths in characters (word and line
        length), and shares from 0 to 1 (the rest).
    """
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    words = text.split()
    found = {
        **_word_scores(text, words, stop_words),
        **_line_scores(lines),
        **_repetition_scores(text, lines),
        **_ngram_scores(words),
        "c4_sentences": float(len(_SENTENCE.findall(text))),
        "c4_lorem_ipsum": float(text.lower().count("lorem ipsum")),
        "c4_curly_brackets": float(text.count("{")),
        **_code_scores(text),
    }
    return {name: found[name] for name in SCORE_NAMES}


def share(part: float, whole: float) -> float:
    """Returns part / whole, and 0 where there is nothing to have a share of."""
    return part / whole if whole else 0.0


def _word_scores(text: str, words: list[str], stop_words: Sequence[str]) -> dict[str, float]:
    lowered = {word.lower().strip(".,;:!?\"'()") for word in words} if stop_words else set()
    symbols = max(text.count("#"), text.count("...") + text.count("…"))
    return {
        "gopher_words": float(len(words)),
        "gopher_mean_word_length": share(sum(map(len, words)), len(words)),
        "gopher_symbols_per_word": share(symbols, len(words)),
        "gopher_alphabetic_words": share(sum(_has_letter(word) for word in words), len(words)),
        "gopher_stop_words": float(sum(word in lowered for word in set(stop_words))),
    }


def _has_letter(word: str) -> bool:
    return word.isalpha() or any(map(str.isalpha, word))


def _line_scores(lines: list[str]) -> dict[str, float]:
    count = len(lines)
    return {
        "gopher_bullet_lines": share(sum(line.startswith(BULLETS) for line in lines), count),
        "gopher_ellipsis_lines": share(sum(line.endswith(("...", "…")) for line in lines), count),
        "fineweb_punctuated_lines": share(sum(line.endswith(LINE_ENDS) for line in lines), count),
        "fineweb_short_lines": share(sum(len(line) < SHORT_LINE_CHARACTERS for line in lines), count),
    }


def _repetition_scores(text: str, lines: list[str]) -> dict[str, float]:
    paragraphs = [paragraph for paragraph in map(str.strip, _PARAGRAPH_BREAK.split(text)) if paragraph]
    line_share, line_characters = _duplicates(lines)
    paragraph_share, paragraph_characters = _duplicates(paragraphs)
    return {
        "gopher_duplicate_lines": line_share,
        "gopher_duplicate_line_characters": line_characters,
        "gopher_duplicate_paragraphs": paragraph_share,
        "gopher_duplicate_paragraph_characters": paragraph_characters,
    }


def _duplicates(pieces: list[str]) -> tuple[float, float]:
    """Returns the share of pieces that repeat an earlier one, and the share of all characters that are in those."""
    distinct = set(pieces)
    characters = sum(map(len, pieces))
    return (
        share(len(pieces) - len(distinct), len(pieces)),
        share(characters - sum(map(len, distinct)), characters),
    )


def _ngram_scores(words: list[str]) -> dict[str, float]:
    """N-grams are numbered exactly, without hashing: an (n+1)-gram is a pair of an n-gram's number and a word's."""
    scores = {f"gopher_top_{n}gram": 0.0 for n in TOP_NGRAMS}
    scores |= {f"gopher_duplicate_{n}gram": 0.0 for n in DUPLICATE_NGRAMS}
    numbers: dict[str, int] = {}
    word_numbers = np.array([numbers.setdefault(word, len(numbers)) for word in words], dtype=np.int64)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    grams = word_numbers
    for n in range(2, DUPLICATE_NGRAMS[-1] + 1):
        if len(grams) < 2:
            break
        pairs = grams[:-1] * len(numbers) + word_numbers[n - 1 :]
        distinct, first, grams, counts = np.unique(pairs, return_index=True, return_inverse=True, return_counts=True)
        if len(distinct) == len(pairs):
            break  # all different: so are all longer ones
        if n in TOP_NGRAMS:
            scores[f"gopher_top_{n}gram"] = max(
                _covered(np.flatnonzero(grams == top), n, lengths) for top in _most_frequent(counts)
            )
        elif n in DUPLICATE_NGRAMS:
            repeats = np.ones(len(pairs), dtype=bool)
            repeats[first] = False
            scores[f"gopher_duplicate_{n}gram"] = _covered(np.flatnonzero(repeats), n, lengths)
    return scores


def _most_frequent(counts: np.ndarray) -> np.ndarray:
    """Numbers of the n-grams with the highest count; of many equally frequent ones 16 are enough to find a long one."""
    return np.flatnonzero(counts == counts.max())[:16]


def _covered(starts: np.ndarray, n: int, lengths: np.ndarray) -> float:
    """Share of the characters in words that lie in an n-gram starting at one of `starts`."""
    edges = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, starts + n, -1)
    return share(float(lengths[np.cumsum(edges[:-1]) > 0].sum()), float(lengths.sum()))


def _code_scores(text: str) -> dict[str, float]:
    lengths = [len(line) for line in text.splitlines()]
    return {
        "code_mean_line_characters": share(sum(lengths), len(lengths)),
        "code_longest_line_characters": float(max(lengths, default=0)),
        "code_alphanumeric": share(sum(map(str.isalnum, text)), len(text)),
    }
