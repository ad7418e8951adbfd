"""The word splitter, against literal expectations in several scripts and a character-by-character splitter."""

import itertools
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.decontaminate.folding import fold
from steps.decontaminate.words import encoded, split_utf8, split_words
from steps.unspaced_scripts import UNSPACED_RANGES


def words_of(text):
    words = split_words([text])
    return [words.excerpt(number, number) for number in range(len(words.hashes))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, wide WORLD!", ["hello", "wide", "world"]),
        ("def f(x_1): return x_1+2", ["def", "f", "x_1", "return", "x_1", "2"]),
        ("# a comment\n# wrapped", ["a", "comment", "wrapped"]),
        ("Straße ＦＵＬＬ ﬁne", ["strasse", "full", "fine"]),
        ("日本語のtext", ["日", "本", "語", "の", "text"]),
        ("ภาษาไทย", list("ภาษาไทย")),
        ("한국어 책", list("한국어책")),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("привет, мир", ["привет", "мир"]),
        ("zero\u200bwidth soft\u00adhyphen", ["zerowidth", "softhyphen"]),
        ("❤️ 👍🏽 — …", []),
        ("", []),
    ],
)
def test_split_words_by_script_gives_the_expected_words(text, expected):
    assert words_of(text) == expected


def test_split_words_composed_and_decomposed_spelling_are_equal():
    composed, decomposed = split_words(["Café naïve"]), split_words([unicodedata.normalize("NFD", "Café naïve")])
    assert np.array_equal(composed.hashes, decomposed.hashes)


def test_split_words_hashes_are_the_same_on_every_machine():
    hashes = [f"{value:016x}" for value in split_words(["Golden values, 東"]).hashes.tolist()]
    assert hashes == ["aea1ae9dc5a7487b", "d5dbadfd5fa5b86e", "804986dfc919f87b"]


def test_split_words_paragraphs_end_at_blank_lines_only():
    words = split_words(["one two\nthree\n \t\nfour\r\n\r\n\r\nfive\n---\nfive\n# six\n#\n# seven", "eight"])
    runs = [list(group) for _, group in itertools.groupby(range(9), key=lambda word: words.paragraphs[word])]
    assert runs == [[0, 1, 2], [3], [4, 5, 6], [7], [8]]
    assert words.texts.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1]


def slow_words(text):
    """One character at a time; returns (word, paragraph) pairs."""
    found, paragraph, current = [], 0, ""
    for line in fold(text).split("\n"):
        if not line.strip(" \t#>"):
            paragraph += 1
        for character in line + " ":
            category = unicodedata.category(character)
            alone = "一" <= character <= "龥" or "ก" <= character <= "๏"
            is_word = category[0] in "LMN" or character == "_"
            if current and (alone or not is_word):
                found.append((current, paragraph))
                current = ""
            if alone and is_word:
                found.append((character, paragraph))
            elif is_word:
                current += character
    return found


@settings(max_examples=200)
@given(st.lists(st.text(st.sampled_from("ab Z_9\n\n\t#.>é中国ไж'—"), max_size=40), min_size=1, max_size=5))
def test_split_words_equals_a_splitter_by_characters(texts):
    words = split_words(texts)
    for number, text in enumerate(texts):
        mine = np.flatnonzero(words.texts == number)
        expected = slow_words(text)
        assert [words.excerpt(int(word), int(word)) for word in mine] == [word for word, _ in expected]
        expected_letters = [any(c.isalpha() for c in word) for word, _ in expected]
        assert words.has_letter[mine].tolist() == expected_letters
        same_mine = (words.paragraphs[mine][1:] == words.paragraphs[mine][:-1]).tolist()
        assert same_mine == [a[1] == b[1] for a, b in zip(expected[1:], expected[:-1], strict=True)]
    by_word = {}
    for number, value in enumerate(words.hashes.tolist()):
        by_word.setdefault(words.excerpt(number, number), set()).add(value)
    assert all(len(values) == 1 for values in by_word.values())
    assert len(set.union(set(), *by_word.values())) == len(by_word)


ONE_BY_ONE = (*UNSPACED_RANGES, (0x3130, 0x318F), (0xAC00, 0xD7A3), (0x20000, 0x3FFFF))
TROUBLE = (
    "ﬁß…½™ŉǰİıſΣςΐ"  # fold to several, or to something unexpected
    "e\u0301\u0327\u0338=a\u0323\u0302"  # marks that compose, and marks in another order
    "ก\u0e38\u0e48ำໍາक\u093c\u094d"  # marks of scripts
    "\u1112\u1161\u11abㅎㅏㄴ한ﾊﾟ"  # jamo, half-width
    "\u212b\u2126\u0345\u200d\ufe0f\u00ad\U000e0100\U0001f600𝔘Ａ１_ 9"
)


@settings(max_examples=300)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(TROUBLE), max_size=30), max_size=4))
def test_split_words_folds_any_text_as_the_definition_does(texts):
    """The table folds most code points one by one; the definition folds a text as a whole."""
    words = split_words(texts)
    for number, text in enumerate(texts):
        expected, current = [], ""
        for character in fold(text) + " ":
            category, code = unicodedata.category(character), ord(character)
            if (category == "Cf" and code < 0x40000) or 0xFE00 <= code < 0xFE10:
                continue
            alone = any(first <= code <= last for first, last in ONE_BY_ONE) and category[0] in "LM"
            in_word = not alone and code < 0x40000 and (category[0] in "LMN" or character == "_")
            if current and not in_word:
                expected.append(current)
                current = ""
            expected += [character] if alone else []
            current += character if in_word else ""
        mine = np.flatnonzero(words.texts == number)
        assert words.hashes[mine].tolist() == [hash_of(word) for word in expected]
        if len(mine):
            assert "".join(expected) in words.excerpt(int(mine[0]), int(mine[-1])).translate(NO_SEPARATORS)


NO_SEPARATORS = {
    code: None
    for code in range(0x110000)
    if not (unicodedata.category(chr(code))[0] in "LMN" or chr(code) == "_") or code >= 0x40000
}


def hash_of(word):
    """The documented hash in Python's integers."""
    gamma, mask = 0x9E3779B97F4A7C15, 2**64 - 1

    def mix(value):
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & mask
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & mask
        return value ^ (value >> 31)

    total = sum(mix(ord(c) + gamma & mask) * pow(gamma, place, 2**64) for place, c in enumerate(word, start=1))
    return mix(total + len(word) & mask)


def test_split_utf8_takes_a_part_of_a_larger_run_of_bytes():
    data, offsets = encoded(["before", "one twoß", "", "drei é", "after"])
    part = split_utf8(data, offsets[1:5])
    assert part.hashes.tolist() == split_words(["one twoß", "", "drei é"]).hashes.tolist()
    assert part.texts.tolist() == [0, 0, 2, 2]
