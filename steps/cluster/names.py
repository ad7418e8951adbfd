"""Names for topics: the terms that set a topic's documents apart, by class-based TF-IDF."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from steps.cluster.terms import terms_of, without_parts
from steps.heuristics.stop_words import STOP_WORDS

_KEPT_TERMS = 2_000
_SPOKEN = 0.2
"""Mean share of a topic's documents that have a language's function words, from which on it is one of the topic's."""


def count_terms(texts: Iterable[str], topics: Iterable[int], num_topics: int) -> list[Counter[str]]:
    """Returns for each topic in how many of its documents each term occurs.

    Documents, not occurrences: one long table must not name a topic. The 2,000 commonest terms of a topic are kept (ties
    by spelling), so that the counts of a shard stay small whatever the shard's size.
    """
    counts: list[Counter[str]] = [Counter() for _ in range(num_topics)]
    for text, topic in zip(texts, topics, strict=True):
        counts[topic].update(terms_of(text))
    return [Counter(dict(sorted(each.items(), key=lambda pair: (-pair[1], pair[0]))[:_KEPT_TERMS])) for each in counts]


def function_words(shares: Mapping[str, float]) -> frozenset[str]:
    """Returns the function words of the languages that a topic's documents are in.

    A language is among them if its listed words occur, on average, in a fifth of the documents: so the German "die" is
    left out of the terms of German topics alone. Words of fewer than three letters are no terms anyway.

    Args:
        shares: in which share of the topic's documents each term occurs.
    """
    found: set[str] = set()
    for words in STOP_WORDS.values():
        listed = [each for each in words if each in terms_of(each)]
        if listed and sum(shares.get(each, 0.0) for each in listed) >= _SPOKEN * len(listed):
            found.update(listed)
    return frozenset(found)


def top_terms(
    counts: Sequence[Counter[str]], documents: Sequence[int], num_terms: int, stop_words: frozenset[str]
) -> list[list[str]]:
    """Returns each topic's most telling terms, best first; ties by spelling.

    A term's score in a topic is p log(p / q): p is the share of the topic's documents that have the term, q the mean of
    that share over all topics. It is TF-IDF with classes for documents and graded presence: a term that half of every
    topic has scores nothing, where the usual log(1 + A / f) still lets it name several topics. The `function_words` of a
    topic are no terms of it.

    Args:
        counts: for each topic, in how many documents each term occurs.
        documents: documents of each topic.
        num_terms: terms to return for each topic, at most.
        stop_words: never returned.
    """
    shares = [
        {term: count / max(1, total) for term, count in each.items() if term not in stop_words}
        for each, total in zip(counts, documents, strict=True)
    ]
    summed: Counter[str] = Counter()
    for each in shares:
        summed.update(each)
    chosen = []
    for each in shares:
        scores = {term: share * math.log(share * len(shares) / summed[term]) for term, share in each.items()}
        left_out = function_words(each)
        ranked = sorted(scores.keys() - left_out, key=lambda term, scores=scores: (-scores[term], term))
        chosen.append(without_parts(ranked, each, num_terms))
    return chosen


def name_topics(terms: Sequence[Sequence[str]]) -> list[str]:
    """Returns distinct names such as "licence-copyright-notice": three terms, one more for as long as two are equal."""
    names: list[str] = []
    for topic, each in enumerate(terms):
        length = 3
        while "-".join(each[:length]) in names and length < len(each):
            length += 1
        name = "-".join(each[:length]) or f"topic-{topic}"
        names.append(name if name not in names else f"{name}-{topic}")
    return names
