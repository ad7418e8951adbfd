"""Which documents to label next: those the student is unsure of, of sources and content types with few labels, unlike the rest.

Greedy: the next document is the one with the largest product of

* its uncertainty, the committee's disagreement;
* coverage, 1 / sqrt((1 + labels in its source) (1 + labels of its content type)), the ones just chosen counted;
* novelty, 1 less its largest cosine with a labelled or chosen document.

So the choice moves on from a source, a type or a cluster as it fills. Equal products go to the lowest seeded rank.
"""

from dataclasses import dataclass

import numpy as np

from steps.seeded_ranks import draw_rank

_LEAST_NOVELTY = 1e-6  # copies of what is labelled come last, in order of the rest


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """n documents to choose from."""

    ids: list[str]
    sources: np.ndarray
    """str[n]."""
    content_types: np.ndarray
    """str[n], as the student finds them."""
    uncertainty: np.ndarray
    """float64[n], 0 or more."""
    vectors: np.ndarray
    """float32[n, d], of unit length."""

    def take(self, rows: np.ndarray) -> "Candidates":
        """Returns some of them, int[m], in that order."""
        return Candidates(
            ids=[self.ids[row] for row in rows],
            sources=self.sources[rows],
            content_types=self.content_types[rows],
            uncertainty=self.uncertainty[rows],
            vectors=self.vectors[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Chosen documents in order, and what spoke for each when it was chosen."""

    rows: np.ndarray
    """int64[m], among the candidates."""
    coverage: np.ndarray
    """float64[m]."""
    novelty: np.ndarray
    """float64[m]."""


def choose(
    candidates: Candidates,
    labelled_vectors: np.ndarray,
    labels_by_source: dict[str, int],
    labels_by_type: dict[str, int],
    *,
    count: int,
    seed: int,
) -> Choice:
    """Returns the `count` documents to label next, or all if there are fewer.

    Args:
        candidates: n documents, none of them labelled.
        labelled_vectors: float32[l, d], unit vectors of what is labelled.
        labels_by_source: labels that each source has.
        labels_by_type: labels that each content type has.
        count: documents wanted.
        seed: settles ties.
    """
    from threadpoolctl import threadpool_limits

    # In the order of ranks, so that the first of equal products is the one of the lowest rank.
    order = np.array(sorted(range(len(candidates.ids)), key=lambda row: draw_rank(seed, candidates.ids[row])))
    sources, source_of = np.unique(candidates.sources[order], return_inverse=True)
    types, type_of = np.unique(candidates.content_types[order], return_inverse=True)
    in_source = np.array([labels_by_source.get(str(name), 0) for name in sources], dtype=np.float64)
    of_type = np.array([labels_by_type.get(str(name), 0) for name in types], dtype=np.float64)
    uncertainty, vectors = candidates.uncertainty[order], candidates.vectors[order]
    chosen: list[int] = []
    coverages, novelties = [], []
    with threadpool_limits(limits=1):  # the same products whatever the machine
        closest = (vectors @ labelled_vectors.T).max(axis=1, initial=-1.0)
        free = np.ones(len(order), dtype=bool)
        for _ in range(min(count, len(order))):
            coverage = 1 / np.sqrt((1 + in_source[source_of]) * (1 + of_type[type_of]))
            novelty = np.maximum(1 - closest, _LEAST_NOVELTY)
            product = np.where(free, uncertainty * coverage * novelty, -1.0)
            best = int(np.argmax(product))
            chosen.append(best)
            coverages.append(coverage[best])
            novelties.append(novelty[best])
            free[best] = False
            in_source[source_of[best]] += 1
            of_type[type_of[best]] += 1
            closest = np.maximum(closest, vectors @ vectors[best])
    return Choice(rows=order[chosen], coverage=np.array(coverages), novelty=np.array(novelties))
