"""The tokeniser of fuzzy deduplication, against counts of words and against a plain Python reference."""

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.dedup.folding import fold, split_words
from steps.dedup.words import Hashes, ngram_hashes, word_hashes
from steps.unspaced_scripts import UNSPACED_RANGES
from tests.steps.dedup.dedup_corpus import word_hashes_of

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


def ngrams_of(words: np.ndarray, length: int) -> np.ndarray:
    return ngram_hashes(Hashes(words, np.array([0]), np.array([words.size])), length).of(0)


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
    assert word_hashes_of(text).size == num_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 3.5 snake_case, NAÏVE ﬁsh!", "it s 3 5 snake case naïve fish"),
        ("Быстрая лиса: №42", "быстрая лиса no42"),
        ("हिन्दी में लिखा है।", "हिन्दी में लिखा है"),
        ("مرحبا بالعالم، كَيْفَ", "مرحبا بالعالم كَيْفَ"),
        ("한국어는 띄어쓰기", "한국어는 띄어쓰기"),
        ("中文，没有。", "中 文 没 有"),
        ("ﾊﾝｶｸカタカナとABC", "ハ ン カ ク カ タ カ ナ と abc"),
        ("ภาษาไทย ๑๒", "ภ า ษ า ไ ท ย ๑ ๒"),
        ("Ελληνικά ΣΊΣΥΦΟΣ", "ελληνικά σίσυφοσ"),
        ("שָׁלוֹם עולם", "שָׁלוֹם עולם"),
    ],
)
def test_words_of_a_script_are_these(text, words):
    assert split_words(text) == words.split()
    assert word_hashes_of(text).tolist() == [reference_word_hash(word) for word in words.split()]


@pytest.mark.parametrize("text", ["", "   \n\t", "!!! --- ***", "​﻿", "🙂🙂"])
def test_words_of_text_without_any_are_none(text):
    assert word_hashes_of(text).size == 0
    assert ngrams_of(word_hashes_of(text), 5).size == 0


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
    assert word_hashes_of(one).tolist() == word_hashes_of(other).tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [("version 5", "version 6"), ("cat", "dog"), ("ab c", "a bc"), ("中文", "文中"), ("é", "e"), ("resume", "résumé")],
)
def test_words_of_different_texts_differ(one, other):
    assert word_hashes_of(one).tolist() != word_hashes_of(other).tolist()


@settings(max_examples=200)
@given(st.text(alphabet=st.characters(codec="utf-8", max_codepoint=0x7FF)))
def test_words_of_spaced_scripts_match_the_reference(text):
    assert word_hashes_of(text).tolist() == [reference_word_hash(word) for word in spaced(text)]


@settings(max_examples=200)
@given(st.text())
def test_words_of_any_text_do_not_depend_on_its_normal_form(text):
    assert word_hashes_of(unicodedata.normalize("NFD", text)).tolist() == word_hashes_of(text).tolist()


def words_of(text: str) -> list[str]:
    """Words of a text in any script, by character category and without the tokeniser."""
    spread = []
    for character in fold(text):
        single = any(first <= ord(character) <= last for first, last in (*UNSPACED_RANGES, (0x20000, 0x3FFFF)))
        if ord(character) < 0x20000 and unicodedata.category(character)[0] not in "LMN":
            spread.append(" ")
        else:
            spread.append(f" {character} " if single else character if ord(character) < 0x20000 else " ")
    return "".join(spread).split()


# Of blocks where NFKC, case or combining classes do something, since text from all of Unicode seldom meets any of it.
_BLOCKS = [
    (0x20, 0x24F),
    (0x300, 0x36F),
    (0x370, 0x6FF),
    (0x900, 0xDFF),
    (0xE00, 0x11FF),
    (0x1AB0, 0x218F),
    (0x2460, 0x24FF),
]
_BLOCKS += [
    (0x3000, 0x33FF),
    (0xAC00, 0xACFF),
    (0xF900, 0xFFEF),
    (0x1D400, 0x1D4FF),
    (0x2F800, 0x2FA1F),
    (0xE0100, 0xE01EF),
]
_TELLING = st.one_of([st.characters(min_codepoint=first, max_codepoint=last) for first, last in _BLOCKS])


@settings(max_examples=400)
@given(st.lists(st.one_of(st.text(_TELLING, max_size=12), st.text(max_size=12)), max_size=6), st.integers(0, 5))
def test_words_of_a_column_match_the_reference_row_by_row(texts, start):
    column = pa.array(texts, pa.string())[start:]
    found = word_hashes(column)
    for row, text in enumerate(texts[start:]):
        assert found.of(row).tolist() == [reference_word_hash(word) for word in words_of(text)]
    assert word_hashes(column.cast(pa.large_string())).counts.tolist() == found.counts.tolist()


@pytest.mark.parametrize(
    "text", ["½" * 99, "ﷺ" * 9, "㌖" * 20, "ß" * 30, "…" * 8, "ǰ" * 9, "x" + "½ß㌖ " * 30, "y " * 400 + "ﷺ½"]
)
def test_words_of_text_that_grows_in_folding_are_all_there(text):
    found = word_hashes(pa.array(["before", text, "after"]))
    for row, each in enumerate(["before", text, "after"]):
        assert found.of(row).tolist() == [reference_word_hash(word) for word in words_of(each)]


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"ab \xc3",
        b"\xc3(",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xf4\x90\x80\x80",
    ],
)
def test_words_of_bytes_that_are_no_utf8_are_refused(text):
    bad = pa.array([b"good", text, b"\xa9 good"], pa.binary()).view(pa.string())
    with pytest.raises(UnicodeDecodeError):
        word_hashes(bad[:2])


@settings(max_examples=200)
@given(st.lists(st.integers(0, _MASK), max_size=12), st.integers(1, 6))
def test_ngrams_match_the_reference(values, length):
    expected = []
    taken = min(length, len(values))
    for start in range(len(values) - taken + 1 if values else 0):
        state = taken
        for value in values[start : start + taken]:
            state = reference_mix(((state * 0x100000001B3) & _MASK) ^ value)
        expected.append(state)
    assert ngrams_of(np.array(values, dtype=np.uint64), length).tolist() == expected


def test_ngram_of_a_short_text_is_not_the_start_of_a_longer_one():
    short, longer = word_hashes_of("only two"), word_hashes_of("only two words")
    assert ngrams_of(short, 3).size == ngrams_of(longer, 3).size == 1
    assert ngrams_of(short, 3)[0] != ngrams_of(longer, 3)[0]
