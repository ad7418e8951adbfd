"""Candidates for the next labels: the documents of each shard that a committee is least sure of, and some by lot.

A shard keeps no more than are wanted of its whole source, so that what is held does not grow with the corpus; the
shortlist of a source is the same however it lies in shards.
"""

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Any

from marin_exec import ShardOut
from steps.contract import read_documents
from steps.documents import NamedInput, join_dense, read_table
from steps.embed.vectors import read_array, vectors_of, write_array
from steps.quality.committee import disagreement, fit_committee
from steps.quality.features import near_duplicate_groups
from steps.quality.labelled import read_labelled
from steps.quality.labels import read_labels
from steps.quality.student import load_student
from steps.quality.windows import Windows, read_documents_or_windows
from steps.seeded_ranks import draw_rank


@dataclass(frozen=True, kw_only=True)
class CommitteeItem:
    """The fit of the committee, a shard of the step."""

    documents: tuple[NamedInput, ...]
    embeddings: str
    labels: str
    classifier: str
    windows: Windows | None
    members: int
    seed: int


def fit_shard(item: CommitteeItem, shard: ShardOut) -> dict[str, Any]:
    """Writes committee.npy and labelled_vectors.npy; returns how many documents are labelled, by source and content type."""
    saved = load_student(item.classifier)
    advice = "use the sources that the labels were made for"
    labels = read_labels(f"{item.labels}/labels.jsonl")
    data = read_labelled(item.documents, item.embeddings, labels, at_least=2, advice=advice)
    blocks = data.blocks(saved.student.settings, item.windows, item.embeddings)
    groups = near_duplicate_groups(blocks)
    weights = fit_committee(blocks, data.scores, groups, saved.student, members=item.members, seed=item.seed)
    write_array(shard.file("committee.npy"), weights)
    write_array(shard.file("labelled_vectors.npy"), data.vectors)
    by_type = Counter(data.content_types)
    return {"labelled": len(data.ids), "by_source": Counter(data.sources.tolist()), "by_type": by_type}


@dataclass(frozen=True, kw_only=True)
class AskShard:
    """One shard of one source, and the committee to ask."""

    source: str
    documents: str
    embeddings: str
    shard: str
    labels: str
    classifier: str
    committee: str
    """committee.npy."""
    windows: Windows | None
    wanted: int
    seed: int


def ask_shard(item: AskShard, shard: ShardOut) -> list[dict[str, Any]]:
    """Returns the shard's candidates, none of them labelled: id, source, shard, content_type, uncertainty."""
    saved = load_student(item.classifier)
    labelled = {label.id for label in read_labels(f"{item.labels}/labels.jsonl")}
    table = read_documents(item.documents, item.shard, columns=["id", "text"])
    where = f"{item.embeddings}/{item.shard}"
    embeddings = read_table(item.embeddings, item.shard)
    join_dense(table, embeddings, where)  # for its check of the ids
    texts, vectors = table["text"].to_pylist(), vectors_of(embeddings, where)
    saved.check_reading(embeddings, item.windows.characters if item.windows else None, where)
    blocks = read_documents_or_windows(texts, vectors, saved, item.windows, where)
    unsure = disagreement(blocks, saved.student, read_array(item.committee))
    types = saved.student.predict(blocks).content_types
    rows = [
        {"id": each, "source": item.source, "shard": item.shard, "content_type": kind, "uncertainty": uncertainty}
        for each, kind, uncertainty in zip(table["id"].to_pylist(), types, unsure.round(9).tolist(), strict=True)
        if each not in labelled
    ]
    return shortlist(rows, item.wanted, item.seed)


def shortlist(rows: list[dict[str, Any]], wanted: int, seed: int) -> list[dict[str, Any]]:
    """Returns the half least sure and the half of the lowest ranks, at most `wanted`, by id.

    The shortlist of all is the shortlist of the shortlists of its parts.
    """
    least_sure = heapq.nsmallest(wanted // 2, rows, key=lambda row: (-row["uncertainty"], row["id"]))
    by_lot = heapq.nsmallest(wanted - wanted // 2, rows, key=lambda row: draw_rank(seed, row["id"]))
    return [row for _, row in sorted({row["id"]: row for row in (*least_sure, *by_lot)}.items())]
