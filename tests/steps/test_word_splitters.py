"""Where the word splitters of deduplication and of decontamination agree, and the four things in which they differ."""

import pytest

from steps.decontaminate.words import split_words
from tests.steps.dedup.dedup_corpus import word_hashes_of


def counts(text):
    return len(word_hashes_of(text)), len(split_words([text]).hashes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Two words", 2),
        ("ＦＵＬＬ width", 2),
        ("漢字かな", 4),
        ("ไทย", 3),
        ("ကခ", 2),
        ("x, y - z", 3),
        ("naïve café", 2),
        ("a\u034fb", 1),  # an invisible character joins
    ],
)
def test_word_splitters_agree_on_words_and_unspaced_scripts(text, words):
    assert counts(text) == (words, words)


@pytest.mark.parametrize(
    ("text", "dedup", "decontamination"),
    [
        ("한국어 단어", 2, 5),  # Hangul
        ("snake_case", 2, 1),  # the low line
        ("๑๒", 2, 1),  # Thai digits
    ],
)
def test_word_splitters_differ_where_their_docs_say(text, dedup, decontamination):
    assert counts(text) == (dedup, decontamination)


def test_word_splitters_drop_invisible_characters_before_and_after_composing():
    """An accent after one composes in deduplication alone."""
    plain, split = "caf\u00e9", "cafe\u200b\u0301"
    assert word_hashes_of(plain).tolist() == word_hashes_of(split).tolist()
    assert split_words([plain]).hashes.tolist() != split_words([split]).hashes.tolist()
