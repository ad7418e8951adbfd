"""Documents of low, middle and high scores of each content type, to be read: those with the lowest seeded ranks.

Only sources that may be shown are drawn from, for what is not shown tells nobody whether a score is right. Memory holds one
shard, and what is chosen so far.
"""

import heapq
from collections import defaultdict
from typing import Any, NamedTuple

from steps.contract import document_shards, read_documents
from steps.documents import NamedInput, read_table
from steps.report.sample_passages import sample_values
from steps.report.shown import Shower
from steps.seeded_ranks import choice_rank

BANDS = {0: "low", 2: "middle", 4: "high"}
"""Buckets that are drawn from."""
_WINDOWS = ("score_begin", "score_middle", "score_end")


class _Drawn(NamedTuple):
    rank: int
    id: str
    source: str
    shard: str
    row: int
    scores: dict[str, float]


def quality_samples(
    documents: tuple[NamedInput, ...], scores: str, shower: Shower, *, per_band: int, seed: int
) -> list[dict[str, Any]]:
    """Returns documents by content type, then band: those of `sample_values`, and content_type, band, score and of (how many
    such documents there are in sources that may be shown). Windows' scores too, where the documents have them.

    Args:
        documents: data sets that were scored. A document of several counts for the first.
        scores: output of quality/scores.
        shower: decides what is shown.
        per_band: documents of each type and band.
        seed: of the ranks.
    """
    counts: dict[tuple[str, int], int] = defaultdict(int)
    drawn: dict[tuple[str, int], dict[str, _Drawn]] = defaultdict(dict)
    for source in documents:
        if shower.withheld(source.name):
            continue
        for shard in document_shards(source.path):
            for key, rows in _by_band(f"{scores}/{source.name}", source.name, shard, seed).items():
                counts[key] += len(rows)
                best = drawn[key]
                for row in heapq.nsmallest(per_band, rows):
                    best.setdefault(row.id, row)
                drawn[key] = {row.id: row for row in heapq.nsmallest(per_band, best.values())}
    texts = _texts(
        {source.name: source.path for source in documents}, [r for each in drawn.values() for r in each.values()]
    )
    return [
        {
            **sample_values({"id": row.id, "source": row.source, **texts[row.source, row.id]}, shower),
            "content_type": content_type,
            "band": BANDS[bucket],
            **row.scores,
            "of": counts[content_type, bucket],
        }
        for (content_type, bucket), rows in sorted(drawn.items())
        for row in sorted(rows.values())
    ]  # fmt: skip


def _by_band(path: str, source: str, shard: str, seed: int) -> dict[tuple[str, int], list[_Drawn]]:
    found: dict[tuple[str, int], list[_Drawn]] = defaultdict(list)
    for place, row in enumerate(read_table(path, shard).to_pylist()):
        if row["bucket"] in BANDS:
            scores = {name: round(row[name], 4) for name in ("score", *_WINDOWS) if name in row}
            drawn = _Drawn(choice_rank(seed, row["id"]), row["id"], source, shard, place, scores)
            found[row["content_type"], row["bucket"]].append(drawn)
    return found


def _texts(paths: dict[str, str], rows: list[_Drawn]) -> dict[tuple[str, str], dict[str, str]]:
    found = {}
    for source, shard in sorted({(row.source, row.shard) for row in rows}):
        table = read_documents(paths[source], shard, ["id", "text", "source_id"])
        for row in rows:
            if (row.source, row.shard) == (source, shard):
                taken = table.slice(row.row, 1).to_pylist()[0]
                found[source, row.id] = {key: taken[key] for key in ("text", "source_id")}
    return found
