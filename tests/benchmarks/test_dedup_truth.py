"""The truth that fuzzy deduplication is held to, against sets of words."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.data.dedup_truth import SHINGLE_WORDS, all_pairs


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    taken = min(SHINGLE_WORDS, len(words))
    return {tuple(words[i : i + taken]) for i in range(len(words) - taken + 1)}


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from("Aabc"), min_size=1, max_size=14), min_size=2, max_size=9))
def test_all_pairs_are_those_that_sets_of_words_give(documents):
    texts = [" ".join(words) for words in documents]
    truth = all_pairs({("s", str(number)): text for number, text in enumerate(texts)})
    expected = {}
    for other, text in enumerate(texts):
        for one in range(other):
            both, either = shingles(texts[one]) & shingles(text), shingles(texts[one]) | shingles(text)
            if len(both) / len(either) >= 0.5:
                expected[one, other] = len(both) / len(either)
    found = dict(zip(map(tuple, truth.pairs.tolist()), truth.jaccard.tolist(), strict=True))
    assert found.keys() == expected.keys()
    assert np.allclose([found[pair] for pair in expected], list(expected.values()))
