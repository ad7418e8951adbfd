"""Heuristic scores against counts by hand and plain Python n-grams, and the limits of the presets."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError
from steps.heuristics.presets import CODE, PROSE, REFERENCE, STARCODER, Limit
from steps.heuristics.scores import DUPLICATE_NGRAMS, SCORE_NAMES, score_text, score_texts
from steps.heuristics.stop_words import STOP_WORDS
from tests.steps.heuristics.plain_scores import plain_scores

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


def assert_plain(text, stop_words=()):
    found, expected = score_text(text, stop_words), plain_scores(text, stop_words)
    assert {name: found[name] for name in found} == pytest.approx({name: expected[name] for name in found}), repr(text)


PIECES = [
    "a", "bb", "ccc", " ", "\n", "\n\n", " \t\n", "\r\n", "\u2028", "\x1c", "\u00a0", "\u3000", "The", "and,", "of.", "(be)",
    "...", "…", "#", "{", "- x", "•", '."', "?) ", "!", "。", "।", "42", "½", "lorem ipsum", "LOREM Ipsum", "日本", "語。",
    "ไทยกำ", "𠀀", "हिन्दी", "👍🏽", "\u200b", "<b>", "</p>", "<", ">", "&amp;", "&#8217;", "&x", "> said", "Subject: x",
    "X-Spam: y", "x-: z", "QUJD" * 20, "+/" * 40, "de ad ", "0xbe,", "\\xef", "0x", "ΤΗΣ", "της",
]  # fmt: skip


@settings(max_examples=250)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.integers(1, 3))
def test_scores_of_hostile_pieces_equal_plain_python(text, times):
    assert_plain(text * times, ("the", "and", "of", "be", "日", "της"))


@settings(max_examples=100)
@given(st.text(max_size=200))
def test_scores_of_any_text_equal_plain_python(text):
    assert_plain(text, ("a", "the"))


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a", "bb", "ccc", "dd"]), max_size=60), st.integers(1, 4), st.integers(0, 3))
def test_scores_ngrams_equal_plain_python(words, times, cut):
    assert_plain(" ".join((words * times)[cut:]))


def test_scores_of_real_texts_equal_plain_python():
    for path in sorted(Path(__file__).parents[3].glob("docs/*.md")):
        assert_plain(path.read_text(), ("the", "of"))


def test_scores_of_texts_together_are_those_of_each():
    texts = [GOOD_PROSE, "", GOOD_CODE]
    together = score_texts(texts, [("the",), ("x",), ()])
    for row, text, words in zip(together, texts, [("the",), ("x",), ()], strict=True):
        assert dict(zip(SCORE_NAMES, row.tolist(), strict=True)) == score_text(text, words)


def test_scores_words_of_scripts_without_spaces_are_characters_with_their_marks():
    assert score_text("我们在这里。你呢？")["gopher_words"] == 7
    assert score_text("Python 3 は速い")["gopher_words"] == 5
    assert score_text("ที่นี่")["gopher_words"] == 2
    assert score_text("나는 집에 간다")["gopher_words"] == 3
    assert score_text("我们在这里。" * 9)["gopher_duplicate_10gram"] > 0.8


def test_scores_same_file_pasted_again_and_again_into_one_document_is_seen():
    other = "\n".join(f"value_{number} = compute({number}, key_{number * 7})" for number in range(60))
    assert score_text(GOOD_CODE + other)["repeated_50gram"] == 0
    assert score_text((GOOD_CODE + other) * 10)["repeated_50gram"] > 0.85
    template = "\n".join(f"Returns the value of field {number}." for number in range(60))  # alike, and not the same
    assert score_text(template)["repeated_50gram"] == 0


@pytest.mark.parametrize(
    ("text", "score", "least", "most"),
    [
        ("import base64\nDATA = '" + "QUJDREVG" * 40 + "'", "encoded_characters", 0.9, 0.95),
        ("DATA = '" + "QUJDREVG" * 200 + "'", "encoded_longest_characters", 1600, 1600),
        ("const unsigned char a[] = {" + "0x1f, 0x2e, " * 30 + "};", "encoded_characters", 0.9, 1),
        ("3c 68 74 6d 6c 3e 0a 20 20\n" * 9, "encoded_characters", 0.95, 1),
        (GOOD_CODE, "encoded_characters", 0, 0),
        ("Title\n" + "=" * 80 + "\n" + "/" * 80 + "\n" + "-" * 80, "encoded_characters", 0, 0),
        ("commit 8b137891791fe96927ad78e64b0aad7bded08bdc\nAuthor: x", "encoded_characters", 0, 0),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14", "encoded_characters", 0, 0),
        ("/* This file is generated by x. */\nint a;", "code_autogenerated", 1, 1),
        ("# Code AUTO-GENERATED from api.yaml\nx = 1", "code_autogenerated", 1, 1),
        ("a\n" * 9 + "# automatically generated", "code_autogenerated", 0, 0),
        ("<p>Hello&nbsp;<b>you</b></p>", "markup_characters", 0.6, 0.8),
        ("if a < b and c > d & e; x << 3", "markup_characters", 0, 0),
        ("From: a@b\nSubject: c\nX-Mailer: d\n\n> quoted\nanswer", "mail_lines", 0.8, 0.8),
        ("Note: this is no mail.\nx: 1", "mail_lines", 0, 0),
        ("1234 5678\n90", "digit_characters", 1, 1),
    ],
)
def test_scores_of_code_data_and_leftovers(text, score, least, most):
    assert least <= score_text(text)[score] <= most
    assert_plain(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("# automatically generated\n" + GOOD_CODE, "code_autogenerated"),
        (GOOD_CODE + "\nDATA = '" + "QUJDREVG" * 200 + "'", "encoded_longest_characters"),
        ("x = [\n" + "0x1f, 0x2e, 0x3d,\n" * 60 + "]", "encoded_characters"),
        ("1234 + 5678 ** 9\n" * 9, "code_alphabetic"),
        (("\n".join(f"name_{n} = {n}" for n in range(80)) + "\n") * 3, "repeated_50gram"),
    ],
)
def test_starcoder_text_that_breaks_a_rule_gives_that_reason(text, rule):
    assert rules(STARCODER, GOOD_CODE) == []
    assert rule in rules(STARCODER, text)


def test_stop_words_fit_the_kernel_and_their_languages():
    from steps.language.model import load_model

    assert set(STOP_WORDS) <= set(load_model("py3langid==0.4.0").labels)
    for language, words in STOP_WORDS.items():
        assert 0 < len(set(words)) <= 64 and all(word == word.lower() and word.split() == [word] for word in words), (
            language
        )
        text = ". ".join(word.upper() for word in words)
        assert score_text(text, words)["gopher_stop_words"] >= 0.9 * len(set(words)), language


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
