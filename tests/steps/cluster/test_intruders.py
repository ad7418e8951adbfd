"""The intruder test: right where topics are real, chance where they are not, and not to be gamed by a bucket of leftovers."""

import numpy as np
import pytest

from steps.cluster.intruders import CHANCE, MEMBERS, Question, intruder_score, make_questions, told, word_similarities

SUBJECTS = [
    "matrix eigenvalue solver factor column", "licence warranty liability notice holder",
    "socket server request client timeout", "poem river mountain autumn moon",
]  # fmt: skip


def texts_and_subjects(per_subject, seed=0):
    rng = np.random.default_rng(seed)
    subjects = np.repeat(np.arange(len(SUBJECTS)), per_subject)
    return [" ".join(rng.permutation(SUBJECTS[each].split())[:4]) for each in subjects], subjects


def score_of(topics, documents, questions=400, seed=0):
    texts, _ = texts_and_subjects(len(topics) // len(SUBJECTS))
    return intruder_score(word_similarities(texts), topics, documents, questions=questions, seed=seed)


def test_real_topics_are_told_and_random_ones_are_not():
    _, subjects = texts_and_subjects(20)
    real = score_of(subjects, [20] * 4)
    assert real.score > 0.95 and real.standard_error < 0.02 and set(real.by_topic) == {0, 1, 2, 3}
    shuffled = np.random.default_rng(1).permutation(subjects)
    random = score_of(shuffled, [20] * 4, questions=2_000)
    assert abs(random.score - CHANCE) < 4 * random.standard_error


def test_bucket_of_leftovers_costs_as_much_as_it_holds():
    """Two clean topics and a misc of all the rest: counted by topic it would be two thirds right, by size it is not."""
    _, subjects = texts_and_subjects(30)
    rng = np.random.default_rng(2)
    topics = np.where(rng.random(len(subjects)) < 0.7, 2, np.minimum(subjects, 1))
    topics[subjects == 3] = 2
    sizes = np.bincount(topics).tolist()
    found = score_of(topics, sizes)
    assert sizes[2] > 0.7 * sum(sizes)
    assert np.mean(list(found.by_topic.values())) > found.score + 0.1


def test_questions_hold_four_of_one_topic_and_one_of_another_and_topics_come_by_size():
    topics = np.repeat([0, 1, 2], 30)
    questions = make_questions(topics, [800, 150, 50], 3_000, seed=4)
    for each in questions:
        chosen = [int(topics[place]) for place in each.documents]
        assert chosen.pop(each.answer) == each.intruder_topic != each.topic
        assert chosen == [each.topic] * MEMBERS and len(set(each.documents)) == MEMBERS + 1
    asked = np.bincount([each.topic for each in questions]) / len(questions)
    np.testing.assert_allclose(asked, [0.8, 0.15, 0.05], atol=0.03)
    assert np.bincount([each.answer for each in questions]).min() > 500  # no place gives it away
    assert questions == make_questions(topics, [800, 150, 50], 3_000, seed=4)


def test_small_topics_are_not_asked_about_but_lend_intruders():
    questions = make_questions([0] * 6 + [1] * 3, [6, 3], 50, seed=0)
    assert {each.topic for each in questions} == {0} and {each.intruder_topic for each in questions} == {1}


@pytest.mark.parametrize("topics", [[], [0] * 9, [0, 1, 2]])
def test_nothing_to_ask_is_no_score(topics):
    similarities = np.eye(len(topics), dtype=np.float32)
    assert intruder_score(similarities, topics, [9, 9, 9], questions=10, seed=0) is None


def test_documents_without_a_common_word_are_a_guess():
    question = Question(topic=0, intruder_topic=1, documents=(0, 1, 2, 3, 4), answer=2)
    assert told(np.eye(5, dtype=np.float32), question) == pytest.approx(CHANCE)
    alike = np.ones((5, 5), dtype=np.float32)
    alike[2, :] = alike[:, 2] = 0.1
    assert told(alike, question) == 1.0
    alike[2, :] = alike[:, 2] = 1.0
    alike[1, :] = alike[:, 1] = 0.1
    assert told(alike, question) == 0.0


def test_similarities_are_cosines_of_tf_idf():
    texts = ["alpha beta", "alpha gamma", "", "delta delta delta"]
    found = word_similarities(texts)
    assert found.shape == (4, 4) and np.diag(found)[[0, 1, 3]] == pytest.approx(1, abs=1e-5)
    assert found[2].max() == 0 and found[0, 1] > 0.1 > found[0, 3]
