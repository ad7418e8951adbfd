"""Pairs to be looked at: what was removed beside what stayed for it, and what only just stayed.

`audit.parquet` has a row a pair. Verdict "removed": of each source, a seeded choice of removed documents. Verdict "kept": of
each source, the documents that came nearest to the threshold from below, by which a threshold is judged. Excerpts begin a
little before the place where the two texts first part; `novel_words` are folded words of the document that are nowhere in
the kept one, in the order in which they come.
"""

from itertools import takewhile

import pyarrow as pa

from marin_exec import Out
from steps.dedup.folding import split_words
from steps.dedup.fuzzy import FuzzyConfig
from steps.dedup.fuzzy_stages import Verdicts, documents_of
from steps.dedup.fuzzy_tables import table_of
from steps.dedup.nodes import Nodes, Signed
from steps.documents import write_table
from steps.seeded_ranks import choice_rank

_EXCERPT_CHARACTERS = 600
_CHARACTERS_BEFORE = 100
_MOST_NOVEL_WORDS = 40
_SCHEMA = pa.schema(
    [
        ("verdict", pa.string()),
        ("source", pa.string()),
        ("id", pa.string()),
        ("kept_source", pa.string()),
        ("kept_id", pa.string()),
        ("containment", pa.float64()),
        ("jaccard", pa.float64()),
        ("num_words", pa.int64()),
        ("kept_num_words", pa.int64()),
        ("num_novel_words", pa.int64()),  # distinct ones
        ("novel_words", pa.list_(pa.string())),
        ("excerpt", pa.string()),
        ("kept_excerpt", pa.string()),
    ]
)


def write_audit(config: FuzzyConfig, out: Out, signed: Signed, nodes: Nodes, verdicts: Verdicts) -> None:
    """Writes `audit.parquet`, up to `audit_pairs` of each verdict and source."""
    names = {each.priority: each.source.name for each in signed.shards}
    chosen = _chosen(config, nodes, verdicts)
    texts = _texts(signed, nodes, {node for pair in chosen for node in pair})
    rows = []
    for node, kept in chosen:
        each = verdicts.comparisons[node]
        own_words, kept_words = split_words(texts[node]), set(split_words(texts[kept]))
        novel = list(dict.fromkeys(word for word in own_words if word not in kept_words))
        start = max(0, _common_beginning(texts[node], texts[kept]) - _CHARACTERS_BEFORE)
        excerpts = (texts[which][start : start + _EXCERPT_CHARACTERS] for which in (node, kept))
        rows.append(
            (
                "removed" if each.removed else "kept",
                names[int(nodes.priorities[node])],
                nodes.id(node),
                names[int(nodes.priorities[kept])],
                nodes.id(kept),
                each.containment,
                each.jaccard,
                int(nodes.num_words[node]),
                int(nodes.num_words[kept]),
                len(novel),
                novel[:_MOST_NOVEL_WORDS],
                *excerpts,
            )
        )
    write_table(out.file("audit.parquet"), table_of(rows, _SCHEMA))


def _common_beginning(one: str, other: str) -> int:
    """Returns how many characters two texts have in common before they part."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _chosen(config: FuzzyConfig, nodes: Nodes, verdicts: Verdicts) -> list[tuple[int, int]]:
    """Returns (node, kept node) of the pairs to be shown, by source, the removed before the kept, in order of choice."""
    ranked: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for node, each in verdicts.comparisons.items():
        if not each.removed and each.containment >= config.containment:
            continue  # exempt
        rank = choice_rank(config.seed, nodes.id(node)) if each.removed else -each.containment
        ranked.setdefault((int(nodes.priorities[node]), not each.removed), []).append((rank, node))
    return [
        (node, verdicts.comparisons[node].kept)
        for group in sorted(ranked)
        for _, node in sorted(ranked[group])[: config.audit_pairs]
    ]


def _texts(signed: Signed, nodes: Nodes, chosen: set[int]) -> dict[int, str]:
    by_shard: dict[int, dict[str, int]] = {}
    for node in chosen:
        by_shard.setdefault(int(nodes.shard_numbers[node]), {})[nodes.id(node)] = node
    texts = {}
    for number, wanted in sorted(by_shard.items()):
        for row in documents_of(signed.shards[number], set(wanted)).to_pylist():
            texts[wanted[row["id"]]] = row["text"]
    return texts
