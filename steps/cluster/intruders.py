"""The intruder test: of five documents, four of one topic and one of another, can one be told to be the stranger?

Who tells is not the embedding that made the topics, but the words: the intruder is taken to be the document whose terms
and trigrams (TF-IDF) are least like those of the other four. A topic is asked about as often as its share of the
documents, and the intruder is drawn from the others by theirs; so a bucket that holds what is left over, and half of
all documents, is half of the questions, and nothing is gained by making one. Chance is one in five.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steps.cluster.terms import terms_of

MEMBERS = 4
_TRIGRAM_CHARACTERS = 1_000
CHANCE = 1 / (MEMBERS + 1)


@dataclass(frozen=True, kw_only=True)
class Question:
    topic: int
    """Whose members four of the documents are."""
    intruder_topic: int
    documents: tuple[int, ...]
    """Places in the list of sampled documents, in the order in which they are shown."""
    answer: int
    """Which of `documents`, from 0, is the intruder."""


@dataclass(frozen=True, kw_only=True)
class IntruderScore:
    score: float
    """Share of questions in which the intruder was told."""
    standard_error: float
    """Of the score, from the number of questions."""
    by_topic: dict[int, float]
    """The score over each topic's own questions, equally many of each topic."""


def make_questions(
    topics: Sequence[int], topic_documents: Sequence[int], count: int, seed: int, *, topic: int | None = None
) -> list[Question]:
    """Returns seeded questions; none if fewer than two topics can be asked about.

    Args:
        topics: topic of each sampled document.
        topic_documents: how many documents each topic has in all: what topics are drawn by.
        count: questions to make.
        seed: of the draws.
        topic: ask about this one only.
    """
    members = [np.flatnonzero(np.asarray(topics) == each) for each in range(len(topic_documents))]
    weight = np.array(topic_documents, dtype=np.float64)
    asked = np.where([len(each) >= MEMBERS for each in members], weight, 0.0)
    if topic is not None:
        asked = np.where(np.arange(len(asked)) == topic, asked, 0.0)
    others = np.where([len(each) > 0 for each in members], weight, 0.0)
    if asked.sum() == 0 or np.count_nonzero(others) < 2:
        return []
    rng = np.random.default_rng([seed, 0 if topic is None else topic + 1])
    hosts = rng.choice(len(asked), size=count, p=asked / asked.sum()).tolist()
    edges = {host: np.cumsum(np.where(np.arange(len(others)) == host, 0.0, others)) for host in set(hosts)}
    questions = []
    for host, where in zip(hosts, rng.random(count), strict=True):
        guest = int(np.searchsorted(edges[host], where * edges[host][-1], side="right"))
        stranger = members[guest][rng.integers(len(members[guest]))]
        chosen = [*members[host][rng.permutation(len(members[host]))[:MEMBERS]].tolist(), int(stranger)]
        order = rng.permutation(MEMBERS + 1)
        questions.append(
            Question(
                topic=host,
                intruder_topic=guest,
                documents=tuple(chosen[place] for place in order),
                answer=int(np.flatnonzero(order == MEMBERS)[0]),
            )
        )
    return questions


def features_of(text: str) -> set[str]:
    """Returns a text's terms and the trigrams of its first 1,000 characters, which tell languages of short texts too."""
    start = " ".join(text[:_TRIGRAM_CHARACTERS].lower().split())
    return terms_of(text) | {start[place : place + 3] for place in range(len(start) - 2)}


def word_similarities(texts: Sequence[str]) -> np.ndarray:
    """Returns float32[n, n]: cosines of the texts' TF-IDF vectors over `features_of`; zeros for a text without any."""
    from scipy.sparse import csr_array

    columns: dict[str, int] = {}
    rows = [[columns.setdefault(each, len(columns)) for each in sorted(features_of(text))] for text in texts]
    edges = np.cumsum([0, *map(len, rows)])
    places = np.array([each for row in rows for each in row], dtype=np.int64)
    counts = np.bincount(places, minlength=max(1, len(columns)))
    weights = np.log(max(1, len(texts)) / np.maximum(counts, 1))  # what all texts have counts for nothing
    squares = np.bincount(np.repeat(np.arange(len(rows)), np.diff(edges)), weights[places] ** 2, minlength=len(rows))
    values = weights[places] / np.repeat(np.sqrt(np.maximum(squares, 1e-30)), np.diff(edges))
    matrix = csr_array((values, places, edges), shape=(len(rows), max(1, len(columns))))
    return (matrix @ matrix.T).toarray().astype(np.float32)


def told(similarities: np.ndarray, question: Question) -> float:
    """Returns the chance that who guesses among the documents least like the others names the intruder, 0 to 1."""
    chosen = np.array(question.documents)
    among = similarities[np.ix_(chosen, chosen)].astype(np.float64)
    mean = np.round((among.sum(axis=1) - np.diagonal(among)) / MEMBERS, 6)
    least = np.flatnonzero(mean == mean.min())
    return float(question.answer in least) / len(least)


def intruder_score(
    similarities: np.ndarray, topics: Sequence[int], topic_documents: Sequence[int], *, questions: int, seed: int
) -> IntruderScore | None:
    """Returns how often intruders are told, or None if there are too few documents to ask about.

    Args:
        similarities: float[n, n] between sampled documents, of a representation that did not make the topics.
        topics: topic of each sampled document.
        topic_documents: how many documents each topic has in all.
        questions: to ask in all, and as many again divided over the topics.
        seed: of the draws.
    """
    asked = make_questions(topics, topic_documents, questions, seed)
    if not asked:
        return None
    score = float(np.mean([told(similarities, each) for each in asked]))
    by_topic = {}
    for topic in range(len(topic_documents)):
        each = make_questions(topics, topic_documents, -(-questions // len(topic_documents)), seed, topic=topic)
        if each:
            by_topic[topic] = float(np.mean([told(similarities, question) for question in each]))
    return IntruderScore(
        score=score, standard_error=float(np.sqrt(score * (1 - score) / len(asked))), by_topic=by_topic
    )
