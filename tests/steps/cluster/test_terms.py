"""Terms of texts in any script, and names made of them."""

import unicodedata
from collections import Counter

import pytest

from steps.cluster.names import count_terms, top_terms
from steps.cluster.terms import terms_of


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("हिन्दी भाषा", {"हिन्दी", "भाषा"}),  # vowel signs are marks
        ("اللُّغَة", {"اللُّغَة"}),
        ("ქართული ენა", {"ქართული", "ენა"}),
        ("파일을 열 때", {"파일을"}),
        ("ファイルの名", {"ファイル"}),  # one character of Han says little, Hiragana nothing
        ("系统", {"系统"}),
        ("Linux系统 v2", {"linux", "系统"}),
        ("ÉCOLE", {"école"}),
        ("a1b22 __ 42", set()),
    ],
)
def test_terms_of_a_script_are_its_words(text, terms):
    assert terms_of(text) == terms


def test_decomposed_accents_do_not_break_words():
    text = "Größe école"
    decomposed = terms_of(unicodedata.normalize("NFD", text))
    assert {unicodedata.normalize("NFC", each) for each in decomposed} == terms_of(text) == {"größe", "école"}


def test_han_run_gives_its_bigrams_to_four_grams():
    assert terms_of("系统管理员") == {
        "系统",
        "统管",
        "管理",
        "理员",
        "系统管",
        "统管理",
        "管理员",
        "系统管理",
        "统管理员",
    }


def test_han_term_is_the_longest_that_is_as_frequent_and_its_parts_are_no_terms_beside_it():
    topics = [[f"系统管理工具 {each}" for each in "甲乙丙丁"], ["诗人与山水", "诗人在河边", "诗人", "河边"]]
    counts = count_terms([text for each in topics for text in each], [0] * 4 + [1] * 4, 2)
    one, two = top_terms(counts, [4, 4], 3, frozenset())
    assert one[0] in {"系统管理", "统管理工", "管理工具"}
    assert not any(a != b and a in b for a in one for b in one)
    assert two[0] == "诗人" and "河边" in two


def test_thai_term_is_a_run_of_characters_with_its_marks():
    counts = count_terms(["แฟ้มข้อมูล", "แฟ้มใหม่", "แฟ้ม"], [0, 0, 0], 1)
    assert counts[0]["แฟ้ม"] == 3


def test_latin_terms_that_hold_each_other_all_stay():
    counts = [Counter({"file": 9, "files": 9}), Counter({"poem": 5})]
    assert top_terms(counts, [10, 10], 2, frozenset())[0] == ["file", "files"]
