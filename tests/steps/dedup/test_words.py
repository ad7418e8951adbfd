"""The tokeniser of fuzzy deduplication, against counts of words and against a plain Python reference."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.dedup.words import fold, ngram_hashes, word_hashes

_MASK = (1 << 64) - 1


def reference_mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def reference_word_hash(word: str) -> int:
    state = 0xCBF29CE484222325
    for character in word:
        state = ((state ^ ord(character)) * 0x100000001B3) & _MASK
    return reference_mix(state)


def spaced(text: str) -> list[str]:
    """Words of a text in scripts with spaces, by character category and without the tokeniser."""
    letters = [c if unicodedata.category(c)[0] in "LMN" else " " for c in fold(text)]
    return "".join(letters).split()


@pytest.mark.parametrize(
    ("text", "num_words"),
    [
        ("The quick, brown fox; it's 3.5 snake_case!", 10),  # it s 3 5 snake case
        ("Быстрая лиса, 42 раза", 4),
        ("हिन्दी में लिखा है", 4),  # vowel signs and viramas belong to their words
        ("مرحبا بالعالم، كيف", 3),
        ("한국어는 띄어쓰기를 한다.", 3),
        ("中文没有空格。", 6),
        ("ひらがなとカタカナー", 10),
        ("ภาษาไทย", 7),
        ("mixed中文and English", 5),
        ("Ελληνικά ΣΊΣΥΦΟΣ", 2),
    ],
)
def test_words_of_a_script_are_counted(text, num_words):
    assert word_hashes(text).size == num_words


@pytest.mark.parametrize("text", ["", "   \n\t", "!!! --- ***", "​﻿", "🙂🙂"])
def test_words_of_text_without_any_are_none(text):
    assert word_hashes(text).size == 0
    assert ngram_hashes(word_hashes(text), 5).size == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café déjà vu", unicodedata.normalize("NFD", "Café déjà vu")),
        ("full width 123", "full width 123"),
        ("zero\u200bwidth jo\u200diner soft\u00adhyphen", "zerowidth joiner softhyphen"),
        ("cafe\u200b\u0301", "café"),  # a zero-width space between a letter and its accent
        ("\ufeffbyte order mark", "byte order mark"),
        ("STRASSE, STRAßE", "strasse strasse"),
        ("中文，标点。", "中文标点"),
        ("don't   stop\n\nnow", "don t stop now"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("カナ half", "カナ half"),
    ],
)
def test_words_of_spelling_variants_agree(one, other):
    assert word_hashes(one).tolist() == word_hashes(other).tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [("version 5", "version 6"), ("cat", "dog"), ("ab c", "a bc"), ("中文", "文中"), ("é", "e"), ("resume", "résumé")],
)
def test_words_of_different_texts_differ(one, other):
    assert word_hashes(one).tolist() != word_hashes(other).tolist()


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8", max_codepoint=0x7FF)))
def test_words_of_spaced_scripts_match_the_reference(text):
    assert word_hashes(text).tolist() == [reference_word_hash(word) for word in spaced(text)]


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_words_of_any_text_do_not_depend_on_its_normal_form(text):
    assert word_hashes(unicodedata.normalize("NFD", text)).tolist() == word_hashes(text).tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, _MASK), max_size=12), st.integers(1, 6))
def test_ngrams_match_the_reference(values, length):
    expected = []
    taken = min(length, len(values))
    for start in range(len(values) - taken + 1 if values else 0):
        state = taken
        for value in values[start : start + taken]:
            state = reference_mix(((state * 0x100000001B3) & _MASK) ^ value)
        expected.append(state)
    assert ngram_hashes(np.array(values, dtype=np.uint64), length).tolist() == expected


def test_ngram_of_a_short_text_is_not_the_start_of_a_longer_one():
    short, longer = word_hashes("only two"), word_hashes("only two words")
    assert ngram_hashes(short, 3).size == ngram_hashes(longer, 3).size == 1
    assert ngram_hashes(short, 3)[0] != ngram_hashes(longer, 3)[0]
