from collections import Counter

from steps.cluster.names import count_terms, name_topics, top_terms
from steps.cluster.terms import terms_of


def test_terms_are_lower_case_words_of_three_letters_or_more_in_any_script():
    assert terms_of("The ΛΟΓΟΙ of_some x1 ab don't 42 Größe") == {"the", "λογοι", "some", "don", "größe"}


def test_terms_past_the_part_that_is_read_do_not_count():
    assert "late" not in terms_of("early " * 1_000 + "late")


def test_counts_are_of_documents_and_not_of_occurrences():
    assert count_terms(["spam spam spam", "spam eggs", "eggs"], [0, 0, 1], 2) == [
        Counter({"spam": 2, "eggs": 1}),
        Counter({"eggs": 1}),
    ]


def test_term_that_every_topic_has_names_none():
    counts = [Counter({"import": 10, "matrix": 8}), Counter({"import": 10, "licence": 9})]
    assert top_terms(counts, [10, 10], 1, frozenset()) == [["matrix"], ["licence"]]


def test_large_topic_does_not_own_a_term_that_a_small_one_has_more_often():
    counts = [Counter({"warranty": 20, "array": 500}), Counter({"warranty": 9})]
    assert top_terms(counts, [1_000, 10], 1, frozenset()) == [["array"], ["warranty"]]


def test_function_words_are_left_out_in_topics_of_their_language_only():
    german = Counter(
        {"die": 9, "und": 9, "der": 8, "den": 6, "das": 7, "mit": 6, "ist": 8, "sie": 7, "auf": 5, "drucker": 4}
    )
    english = Counter({"die": 9, "bullet": 8, "shoot": 7})
    assert top_terms([german, english], [10, 10], 3, frozenset()) == [["drucker"], ["bullet", "shoot", "die"]]


def test_stop_words_and_empty_topics_are_survived():
    assert top_terms([Counter({"the": 5, "cat": 1}), Counter()], [5, 0], 3, frozenset({"the"})) == [["cat"], []]


def test_names_are_distinct_even_for_equal_terms():
    names = name_topics([list("abcd"), list("abcd"), list("abcd"), []])
    assert names == ["a-b-c", "a-b-c-d", "a-b-c-d-2", "topic-3"]
