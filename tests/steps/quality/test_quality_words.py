import re
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer

from steps.quality.features import FeatureSettings, read_blocks, surface_measures
from steps.quality.words import character_counts, hashed_words

ODD = "Ünï çödé ΣΑΣ İstanbul 日本語 テスト ไทย 한국어 ١٢٣ ² ① a_b __ \U0001f600 e\u0301 ſ K\x00\x85x\u2028y"
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=6)
WORDY = st.lists(st.text("aB1_ é日ไ\n-", max_size=120), max_size=6)


def columns_of(texts, bits):
    columns, ends, _, _ = hashed_words(texts, bits)
    return [each.tolist() for each in np.split(columns, ends[:-1])] if texts else []


@settings(max_examples=60)
@given(TEXTS | WORDY)
@example([ODD, "", ODD.swapcase(), "x" * 700 + " " + "é" * 700, "\U000e0100a\U0010ffff1"])
def test_hashed_words_are_those_of_scikit_learn(texts):
    vectorizer = HashingVectorizer(
        n_features=2**12, ngram_range=(1, 2), binary=True, norm="l2", token_pattern=r"(?u)\b\w+\b", dtype=np.float32
    )
    blocks = read_blocks(texts, np.zeros((len(texts), 1), dtype=np.float32), FeatureSettings())
    if texts:
        expected = vectorizer.transform(texts)
        np.testing.assert_array_equal(blocks.hashed.toarray(), expected.toarray())
    assert columns_of(texts, 12) == [np.flatnonzero(row).tolist() for row in blocks.hashed.toarray()]


@settings(max_examples=60)
@given(TEXTS | WORDY)
@example([ODD, ""])
def test_characters_and_words_are_counted_as_regular_expressions_count_them(texts):
    counts = character_counts(texts)
    _, _, words, distinct = hashed_words(texts, 8)
    for row, text in enumerate(texts):
        found = re.findall(r"\w+", text.lower())
        letters, digits = len(re.findall(r"[^\W\d_]", text)), len(re.findall(r"\d", text))
        assert counts[row].tolist() == [len(text), letters, digits, text.count("\n")]
        assert (words[row], distinct[row]) == (len(found), len(set(found)))


def test_every_code_point_is_classed_as_python_does():
    everything = [chr(each) for each in range(0x110000) if not 0xD800 <= each < 0xE000]
    counts = character_counts(everything)
    assert counts[:, 1].tolist() == [each.isalnum() and not each.isdecimal() for each in everything]
    assert counts[:, 2].tolist() == [each.isdecimal() for each in everything]


def test_blocks_read_in_batches_are_those_read_at_once(monkeypatch):
    texts = [f"text number {each} of {each % 3} kinds" * (each % 4) for each in range(25)]
    vectors = np.arange(25, dtype=np.float32)[:, None]
    whole = read_blocks(texts, vectors, FeatureSettings(hash_bits=8))
    monkeypatch.setattr("steps.quality.features._TEXTS_AT_ONCE", 4)
    batched = read_blocks(texts, vectors, FeatureSettings(hash_bits=8))
    np.testing.assert_array_equal(whole.hashed.toarray(), batched.hashed.toarray())
    np.testing.assert_array_equal(whole.surface, batched.surface)
    np.testing.assert_array_equal(whole.surface, surface_measures(texts, 4_000))


def test_no_package_of_the_lock_is_a_fasttext():
    """Wheels of fastText and floret fail on NumPy 2 when they predict; none may come in through some dependency."""
    lock = (Path(__file__).parents[3] / "requirements.lock").read_text()
    names = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    assert "numpy" in names
    assert not [name for name in names if re.search(r"fast-?text|fast-?lang|floret", name, re.IGNORECASE)]
