"""Heuristic scores against counts by hand and plain Python n-grams, and the limits of the presets."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.heuristics.presets import CODE, PROSE, REFERENCE, Limit
from steps.heuristics.scores import DUPLICATE_NGRAMS, SCORE_NAMES, TOP_NGRAMS, score_text

GOOD_PROSE = (
    "The harbour was built in the year that the river changed its bed. Ships of every size came to lie there, and the "
    "people of the town began to trade with places that they had only heard of.\n\n"
    "Nobody could say who had the first idea. What is known is that two brothers have left a ledger, with the names of "
    "all the captains and the goods that went through their hands. It is kept in the library to this day!"
)
GOOD_CODE = """import json
from pathlib import Path


def load(path: Path) -> dict[str, int]:
    with path.open() as file:
        values = json.load(file)
    return {name: int(value) for name, value in values.items()}


class Counter:
    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> None:
        self.values[name] = self.values.get(name, 0) + amount
"""


def reasons(preset, text):
    scores = score_text(text, preset.stop_words)
    return [reason for limit in preset.limits if (reason := limit.reason(scores[limit.score]))]


def rules(preset, text):
    return [reason.split(":")[0] for reason in reasons(preset, text)]


def test_presets_good_texts_are_kept_by_their_own_preset():
    assert reasons(PROSE, GOOD_PROSE) == []
    assert reasons(CODE, GOOD_CODE) == []
    assert reasons(REFERENCE, GOOD_PROSE) == []


def test_presets_code_is_not_judged_as_prose():
    found = rules(PROSE, GOOD_CODE)
    assert {"gopher_stop_words", "c4_curly_brackets"} <= set(found)
    judged = {limit.score for limit in CODE.limits}
    assert not judged & {"gopher_stop_words", "fineweb_punctuated_lines", "c4_sentences", "gopher_alphabetic_words"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Too short to be kept. It is the end of that.", "gopher_words"),
        (GOOD_PROSE + " word" * 100_001, "gopher_words"),
        (
            " ".join(["incomprehensibilities"] * 3 + [f"antidisestablishment{i}" for i in range(60)]),
            "gopher_mean_word_length",
        ),
        (GOOD_PROSE + " #" * 20, "gopher_symbols_per_word"),
        (GOOD_PROSE + " and so on..." * 20, "gopher_symbols_per_word"),
        ("\n".join(f"* {line}." for line in GOOD_PROSE.replace("\n", "").split(".")), "gopher_bullet_lines"),
        (GOOD_PROSE.replace(".", "...\n"), "gopher_ellipsis_lines"),
        (GOOD_PROSE + " 1 2 3 4 5 6 7 8 9 10" * 5, "gopher_alphabetic_words"),
        ("Ships came. People traded. Nobody knew. " * 3 + "Names here." * 3, "gopher_stop_words"),
        ((GOOD_PROSE + "\n\n") * 3, "gopher_duplicate_lines"),
        ((GOOD_PROSE + "\n\n") * 3, "gopher_duplicate_line_characters"),
        ((GOOD_PROSE + "\n\n") * 3, "gopher_duplicate_paragraphs"),
        ((GOOD_PROSE + "\n\n") * 3, "gopher_duplicate_paragraph_characters"),
        (GOOD_PROSE + " buy now" * 30, "gopher_top_2gram"),
        (GOOD_PROSE + " buy it now" * 30, "gopher_top_3gram"),
        (GOOD_PROSE + " buy it now cheap" * 30, "gopher_top_4gram"),
        *((GOOD_PROSE + " " + GOOD_PROSE.replace("\n", " "), f"gopher_duplicate_{n}gram") for n in DUPLICATE_NGRAMS),
        (GOOD_PROSE.replace(".", ","), "c4_sentences"),
        (GOOD_PROSE + " Lorem ipsum dolor.", "c4_lorem_ipsum"),
        (GOOD_PROSE + " if (x) { y }.", "c4_curly_brackets"),
        (GOOD_PROSE.replace(". ", "\n").replace(".", "").replace("!", ""), "fineweb_punctuated_lines"),
        (
            GOOD_PROSE.replace(" in", "\nin")
            .replace(" that", "\nthat")
            .replace(" and", "\nand")
            .replace(" the", "\nthe"),
            "fineweb_short_lines",
        ),
    ],
)
def test_prose_text_that_breaks_a_rule_gives_that_reason(text, rule):
    assert rule in rules(PROSE, text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f'DATA = "{"x" * 1200}"\n{GOOD_CODE}', "code_longest_line_characters"),
        (
            "\n".join(f"value_{i} = " + " + ".join(f"part_{i}_{j}" for j in range(14)) for i in range(9)),
            "code_mean_line_characters",
        ),
        ("\n".join("| -- | ++ | == | {} | [] | () | x" for _ in range(3)), "code_alphanumeric"),
        (GOOD_CODE * 10, "gopher_duplicate_10gram"),  # the same file pasted over and over
        (GOOD_CODE * 10, "gopher_duplicate_paragraph_characters"),
        ("", "gopher_words"),
    ],
)
def test_code_text_that_breaks_a_rule_gives_that_reason(text, rule):
    assert rule in rules(CODE, text)


def test_scores_many_blank_lines_are_no_duplicate_lines():
    spaced = GOOD_PROSE.replace(". ", ".\n\n\n   \n\n\t\n")
    scores = score_text(spaced)
    assert scores["gopher_duplicate_lines"] == scores["gopher_duplicate_paragraphs"] == 0
    assert reasons(PROSE, spaced) == []


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "word", "!!!", "日本", "a b", "\u200b"])
def test_scores_of_nearly_empty_texts_are_finite(text):
    scores = score_text(text, ("the",))
    assert tuple(scores) == SCORE_NAMES
    assert all(math.isfinite(value) for value in scores.values())
    for preset in (PROSE, CODE, REFERENCE):
        assert any(reason.startswith("gopher_words: ") for reason in reasons(preset, text))


def test_scores_by_hand():
    scores = score_text("# Title here\n\nalpha beta...\nalpha beta...\n- item {x}\n\nThe end is near.", ("the", "of"))
    assert scores["gopher_words"] == 14
    assert scores["gopher_stop_words"] == 1
    assert scores["gopher_symbols_per_word"] == pytest.approx(2 / 14)
    assert scores["gopher_duplicate_lines"] == pytest.approx(1 / 5)
    assert scores["gopher_duplicate_line_characters"] == pytest.approx(13 / (12 + 13 + 13 + 10 + 16))
    assert scores["gopher_bullet_lines"] == pytest.approx(1 / 5)
    assert scores["gopher_ellipsis_lines"] == pytest.approx(2 / 5)
    assert scores["gopher_alphabetic_words"] == pytest.approx(12 / 14)
    assert scores["gopher_top_2gram"] == pytest.approx(2 * 12 / 55)
    assert scores["c4_curly_brackets"] == 1
    assert scores["fineweb_short_lines"] == 1
    assert scores["code_longest_line_characters"] == 16


def slow_ngrams(words):
    """The n-gram scores with tuples and sets of covered words."""
    total = sum(map(len, words))

    def covered(starts, n):
        places = {place for start in starts for place in range(start, start + n)}
        return sum(len(words[place]) for place in places) / total if total else 0

    scores = {}
    for n in (*TOP_NGRAMS, *DUPLICATE_NGRAMS):
        places = {}
        for start in range(len(words) - n + 1):
            places.setdefault(tuple(words[start : start + n]), []).append(start)
        if n in TOP_NGRAMS:
            most = max(map(len, places.values()), default=0)
            tops = [covered(starts, n) for starts in places.values() if len(starts) == most] if most > 1 else [0]
            scores[f"gopher_top_{n}gram"] = max(tops)
        else:
            scores[f"gopher_duplicate_{n}gram"] = covered([s for starts in places.values() for s in starts[1:]], n)
    return scores


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["a", "bb", "ccc", "dd"]), max_size=14), st.integers(1, 4), st.integers(0, 3))
def test_scores_ngrams_equal_plain_python(words, times, cut):
    words = (words * times)[cut:]
    scores = score_text(" ".join(words))
    for name, expected in slow_ngrams(words).items():
        assert scores[name] == pytest.approx(expected), name


@given(st.text(max_size=300))
def test_scores_shares_lie_between_0_and_1(text):
    scores = score_text(text, ("the",))
    for name in SCORE_NAMES:
        if "gram" in name or "duplicate" in name or name.endswith("_lines") or "alpha" in name:
            assert 0 <= scores[name] <= 1, name


def test_limit_reason_shows_value_and_limit():
    assert Limit(score="gopher_duplicate_lines", maximum=0.30).reason(0.41) == "gopher_duplicate_lines: 0.41 > 0.3"
    assert Limit(score="gopher_words", minimum=50).reason(7.0) == "gopher_words: 7 < 50"
    assert Limit(score="gopher_duplicate_lines", maximum=0.3).reason(0.3) is None
    assert Limit(score="gopher_duplicate_lines", maximum=0.3).reason(0.3004) == "gopher_duplicate_lines: 0.3004 > 0.3"


def test_limit_unknown_score_or_no_bound_is_refused():
    with pytest.raises(ConfigError, match=r"gopher_wrods.*the scores are gopher_words"):
        Limit(score="gopher_wrods", minimum=1)
    with pytest.raises(ConfigError, match="neither minimum nor maximum"):
        Limit(score="gopher_words")
