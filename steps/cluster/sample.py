"""The seeded sample of vectors that centroids are trained on: largest-remainder quotas by source, then the lowest hashes.

Which documents are drawn depends on their ids, the sources' sizes and the seed, never on shards or their order. Ids are
read first, and vectors a shard at a time, so what is held is the sample.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from marin_exec import StepFailed
from steps.documents import read_table, shard_names
from steps.embed.vectors import read_shard
from steps.seeded_ranks import draw_rank


def largest_remainder_quotas(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Returns how many documents to draw from each source, in proportion to size, at least one from each.

    Args:
        sizes: documents by source.
        total: documents to draw in all; as many as there are if the sources hold fewer.

    Returns:
        Quotas by source that sum to `total`, or to the number of sources if that is larger.
    """
    available = sum(sizes.values())
    if total >= available:
        return dict(sizes)
    exact = {name: total * size / available for name, size in sizes.items()}
    quotas = {name: min(sizes[name], max(1, int(exact[name]))) for name in sizes}
    # What is still to give goes to the largest remainders; a floor of one may also have given too much already.
    by_remainder = sorted(sizes, key=lambda name: (quotas[name] - exact[name], name))
    for name in by_remainder * 2:
        if sum(quotas.values()) < total and quotas[name] < sizes[name]:
            quotas[name] += 1
    for name in reversed(by_remainder * 2):
        if sum(quotas.values()) > total and quotas[name] > 1:
            quotas[name] -= 1
    return quotas


def draw_rows(ids: Sequence[str], count: int, seed: int) -> np.ndarray:
    """Returns int64[count]: the rows drawn, a function of the seed and the ids, not of the rows' order."""
    order = sorted(range(len(ids)), key=lambda row: (draw_rank(seed, ids[row]), ids[row]))
    return np.array(sorted(order[:count]), dtype=np.int64)


def read_sample(tables: Mapping[str, str], total: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sampled vectors, float32[n, d], and the number of each one's source, int64[n].

    Args:
        tables: path of each source's embedding table.
        total: documents to draw in all.
        seed: of the draw.

    Raises:
        StepFailed: a table is no embedding table, a vector is zero or not finite, or there is none.
    """
    shards = {name: shard_names(path) for name, path in tables.items()}
    ids = {
        name: [read_table(tables[name], shard, ["id"])["id"].to_pylist() for shard in each]
        for name, each in shards.items()
    }
    quotas = largest_remainder_quotas({name: sum(map(len, each)) for name, each in ids.items()}, total)
    vectors, sources = [], []
    for number, (name, path) in enumerate(tables.items()):
        rows = draw_rows([each for shard in ids[name] for each in shard], quotas[name], seed)
        edges = np.cumsum([0, *map(len, ids[name])])
        for shard, first, last in zip(shards[name], edges[:-1], edges[1:], strict=True):
            chosen = rows[(rows >= first) & (rows < last)] - first
            if len(chosen):
                vectors.append(read_shard(path, shard)[1][chosen])
                sources.append(np.full(len(chosen), number))
    if not vectors:
        raise StepFailed(f"{', '.join(tables.values())}: no vectors in any of them; nothing can be clustered")
    return np.concatenate(vectors), np.concatenate(sources)
