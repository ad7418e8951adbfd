"""Names for topics: the terms that set a topic's documents apart, by class-based TF-IDF."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[^\W\d_]{3,}")
_READ_CHARACTERS = 4_000
_KEPT_TERMS = 2_000


def terms_of(text: str) -> set[str]:
    """Returns the distinct lower-case words of three letters or more in a text's first 4,000 characters."""
    return {word.lower() for word in _WORD.findall(text[:_READ_CHARACTERS])}


def count_terms(texts: Iterable[str], topics: Iterable[int], num_topics: int) -> list[Counter[str]]:
    """Returns for each topic in how many of its documents each term occurs.

    Documents, not occurrences: one long table must not name a topic. The 2,000 commonest terms of a topic are kept (ties
    by spelling), so that the counts of a shard stay small whatever the shard's size.
    """
    counts: list[Counter[str]] = [Counter() for _ in range(num_topics)]
    for text, topic in zip(texts, topics, strict=True):
        counts[topic].update(terms_of(text))
    return [Counter(dict(sorted(each.items(), key=lambda pair: (-pair[1], pair[0]))[:_KEPT_TERMS])) for each in counts]


def top_terms(
    counts: Sequence[Counter[str]], documents: Sequence[int], num_terms: int, stop_words: frozenset[str]
) -> list[list[str]]:
    """Returns each topic's most telling terms, best first; ties by spelling.

    A term's score in a topic is p log(p / q): p is the share of the topic's documents that have the term, q the mean of
    that share over all topics. It is TF-IDF with classes for documents and graded presence: a term that half of every
    topic has scores nothing, where the usual log(1 + A / f) still lets it name several topics.

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
        chosen.append(sorted(scores, key=lambda term, scores=scores: (-scores[term], term))[:num_terms])
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
