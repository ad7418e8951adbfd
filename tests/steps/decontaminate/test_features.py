"""Features and their index, against sets of word tuples."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.decontaminate.features import batches, bitmap_of, extract_features, runs_of
from steps.decontaminate.index import build_index
from steps.decontaminate.records import Record


def record(name, text, *, benchmark="bench", short=True, keeps_frequent=True):
    return Record(benchmark=benchmark, name=name, text=text, short=short, keeps_frequent=keeps_frequent)


def slow_features(text, n, shortest):
    """Features of a text of plain words as tuples, one a paragraph position."""
    paragraphs = [paragraph.split() for paragraph in text.split("\n\n")]
    if all(len(paragraph) < shortest for paragraph in paragraphs):
        paragraphs = [[word for paragraph in paragraphs for word in paragraph]]
    found = []
    for words in paragraphs:
        if shortest <= len(words) < n:
            found.append(("whole", *words))
        found += [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return [feature for feature in found if any(c.isalpha() for word in feature[feature[0] == "whole" :] for c in word)]


TEXTS = st.lists(
    st.lists(st.lists(st.sampled_from(["a", "b", "c", "7", "42"]), max_size=9).map(" ".join), max_size=4).map(
        "\n\n".join
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200)
@given(TEXTS, st.integers(3, 6))
def test_extract_features_equals_tuples_of_words(texts, n):
    features = extract_features(texts, n, 2)
    by_tuple = {}
    for number, text in enumerate(texts):
        mine = features.hashes[features.texts == number].tolist()
        expected = slow_features(text, n, 2)
        assert len(mine) == len(expected)
        by_tuple_here = sorted(expected)
        assert len(set(mine)) == len(set(by_tuple_here))
        for value, feature in zip(mine, expected, strict=True):
            assert by_tuple.setdefault(feature, value) == value
    assert len(set(by_tuple.values())) == len(by_tuple)


@settings(max_examples=50)
@given(TEXTS)
def test_extract_features_of_a_batch_equals_those_of_each_text(texts):
    whole = extract_features(texts, 4, 2)
    alone = [extract_features([text], 4, 2).hashes for text in texts]
    assert np.array_equal(whole.hashes, np.concatenate(alone))


def test_extract_features_stubs_and_numbers_give_none():
    assert (
        len(extract_features(["...", "A.", "", "1 2 3 4 5 6 7 8 9 10 11 12 13 14", "3.14 2.71 1.41"], 13, 3).hashes)
        == 0
    )


def test_extract_features_script_without_spaces_fills_ngrams():
    thai = extract_features(["ประเทศไทยมีเมืองหลวงชื่อกรุงเทพมหานคร"], 13, 3)
    assert len(thai.hashes) > 10 and set(thai.lengths.tolist()) == {13}


def test_build_index_feature_of_two_benchmarks_is_attributed_to_both():
    shared = "one two three four five"
    index = build_index(
        [record("1", shared, benchmark="first"), record("2", shared + " six", benchmark="second")], 5, 3, 8
    )
    place = int(index.find(extract_features([shared], 5, 3).hashes)[0])
    assert [(found.benchmark, found.name) for found in index.records_of(place)] == [("first", "1"), ("second", "2")]
    assert index.features_of_record.tolist() == [1, 2]
    assert index.excerpts([place]) == [shared]


def test_build_index_short_paragraphs_count_only_where_there_is_no_long_one():
    long = "from typing import list\n\none two three four five six seven"
    index = build_index([record("long", long), record("short", "just four words here")], 6, 3, 8)
    assert index.features_of_record.tolist() == [2 + 4, 1]  # inside the second paragraph, and across the two
    off = build_index([record("short", "just four words here", short=False)], 6, 3, 8)
    assert off.features_of_record.tolist() == [0] and off.find(np.array([5], dtype=np.uint64)).tolist() == [-1]


def test_build_index_does_not_depend_on_batches_or_repeats():
    texts = [f"record {number} tells the story of item {number} at length" for number in range(200)]
    index = build_index([record(str(i), text) for i, text in enumerate(texts * 2)], 5, 3, 8)
    expected = {value for text in texts for value in extract_features([text], 5, 3).hashes.tolist()}
    assert index.hashes.tolist() == sorted(expected)


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(1, 60))
def test_batches_cover_all_texts_once_in_order(texts, characters):
    assert [
        number for first, last in batches([len(text) for text in texts], characters) for number in range(first, last)
    ] == list(range(len(texts)))


@settings(max_examples=50)
@given(st.lists(st.text(st.sampled_from("abcdefg "), min_size=1, max_size=60), min_size=1, max_size=8), st.data())
def test_find_says_which_feature_a_hash_is_and_no_for_all_others(texts, data):
    index = build_index([record(str(number), text) for number, text in enumerate(texts)], 3, 2, 8)
    mine = index.hashes.tolist()
    near = [value ^ (1 << bit) for value in mine for bit in (0, 31, 47, 63)]
    wanted = data.draw(st.permutations([*mine, *near, 0, 2**64 - 1]))
    place = {value: number for number, value in enumerate(mine)}
    assert index.find(np.array(wanted, dtype=np.uint64)).tolist() == [place.get(value, -1) for value in wanted]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a", "b", "c", "7"]), min_size=1, max_size=20), st.integers(2, 5))
def test_runs_are_what_a_paragraph_of_these_words_alone_gives(words, length):
    every = np.full(2**16 // 64, 2**64 - 1, dtype=np.uint64)  # a bitmap that lets all pass
    runs = runs_of(extract_features([" ".join(words)], 13, 2), [length], every)
    expected = [extract_features([" ".join(words[i : i + length])], 13, 2) for i in range(len(words) - length + 1)]
    if len(words) <= length:
        expected = []  # a paragraph of just that length is a feature itself
    assert runs.hashes.tolist() == [value for features in expected for value in features.hashes.tolist()]
    assert [runs.excerpt(number) for number in range(len(runs.hashes))] == [
        features.excerpt(0) for features in expected if len(features.hashes)
    ]


def test_bitmap_turns_away_most_hashes_that_are_not_there():
    draw = np.random.default_rng(0)
    hashes, others = draw.integers(0, 2**64, (2, 100_000), dtype=np.uint64)
    bitmap = bitmap_of(np.unique(hashes))
    places = others >> np.uint64(64 - (len(bitmap) * 64 - 1).bit_length())
    passed = bitmap[places >> np.uint64(6)] >> (places & np.uint64(63)) & np.uint64(1)
    assert 0.02 < passed.mean() < 1 / 16 + 0.005
