"""The compiled WordPiece against the `tokenizers` package, which is what it stands for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.embed.encoders import PINNED
from steps.embed.minilm_files import model_directory, tokenize
from steps.embed.static import embed_texts
from steps.embed.wordpiece import tokenize_batch

DIRECTORY = model_directory(PINNED)
PIECES = [
    "ing",
    "un",
    "##s",
    "[SEP]",
    "[sep]",
    "[MASK",
    "don't",
    "ﬁ",
    "İ",
    "ß",
    "日本",
    "한글",
    "हिन्दी",
    "ภาษา",
    "\u0301",
    "\u200b",
    "\ufffd",
]
CHARACTERS = st.characters(exclude_categories=["Cs"])


def batch(texts, max_tokens=512):
    ids, starts = tokenize_batch(texts, DIRECTORY, max_tokens)
    return [each.tolist() for each in np.split(ids, starts[1:-1])]


@settings(max_examples=150)
@given(
    st.lists(
        st.lists(CHARACTERS | st.sampled_from(PIECES) | st.sampled_from(" \t\n.,a"), max_size=30).map("".join),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1, 2, 7, 512]),
)
def test_tokens_are_those_of_the_package(texts, max_tokens):
    assert batch(texts, max_tokens) == tokenize(texts, DIRECTORY, max_tokens, special=False)


def test_every_code_point_between_letters_is_split_as_the_package_does():
    points = [each for each in range(0x32000) if not 0xD800 <= each < 0xE000]
    texts = ["".join(f"a{chr(each)}b " for each in points[start : start + 60]) for start in range(0, len(points), 60)]
    assert batch(texts) == tokenize(texts, DIRECTORY, 512, special=False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a" * 100,
        "a" * 101,
        "é" * 101,
        "[SEP]",
        "a[SEP]b [CLS] c",
        "##ing",
        "ing ##ing",
        "\u302e\u302f\u0301 a",
        "\U00030000 b",
        "\U000e0001a",
    ],
)
def test_odd_text_beside_plain_ones_is_split_as_the_package_does(text):
    texts = ["plain before", text, "plain after", text]
    assert batch(texts) == tokenize(texts, DIRECTORY, 512, special=False)


def test_no_texts_are_no_tokens():
    assert batch([]) == [[]] and embed_texts([], np.ones((30_522, 3), dtype=np.float32), DIRECTORY, 512).shape == (0, 3)


def test_static_vectors_do_not_depend_on_the_batch(monkeypatch):
    table = np.random.default_rng(0).normal(size=(30_522, 9)).astype(np.float16).astype(np.float32)
    texts = [f"text number {number} " * (number % 7) for number in range(40)]
    whole = embed_texts(texts, table, DIRECTORY, 512)
    monkeypatch.setattr("steps.embed.static._BATCH_CHARACTERS", 100)
    np.testing.assert_array_equal(embed_texts(texts, table, DIRECTORY, 512), whole)
    np.testing.assert_array_equal(embed_texts(texts[::-1], table, DIRECTORY, 512), whole[::-1])
