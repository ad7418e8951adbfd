"""Seeded samples of documents by label (the rule that removed them, their language), to be read by people.

A shard gives back the lowest seeded ranks of each label; the lowest of all are shown. So a sample depends on ids and
seed alone, however documents are spread over shards.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from steps.contract import read_documents
from steps.documents import NamedInput
from steps.files import write_bytes
from steps.seeded_ranks import choice_rank

Ranked = list[tuple[int, str]]
"""(rank, id), lowest ranks first."""


def sample_rank(identifier: str, seed: int) -> int:
    """Returns a document's place in a seeded shuffle, the same however documents are spread over shards."""
    return choice_rank(seed, identifier) >> 1  # 63 bits: survives any JSON reader as int64


def shard_samples(labelled: Iterable[tuple[str, str]], seed: int, per_label: int) -> dict[str, Ranked]:
    """Returns the lowest-ranked documents of each label.

    Args:
        labelled: (label, id) of a shard's documents.
        seed: of the ranks.
        per_label: at most so many are returned.
    """
    members: dict[str, list[str]] = {}
    for label, identifier in labelled:
        members.setdefault(label, []).append(identifier)
    return {
        label: sorted((sample_rank(each, seed), each) for each in ids)[:per_label] for label, ids in members.items()
    }


def chosen_samples(shards: Mapping[str, Mapping[str, Ranked]], per_label: int) -> dict[str, list[tuple[str, str]]]:
    """Returns (shard, id) of the lowest-ranked documents of each label over all shards."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    for shard, by_label in shards.items():
        for label, members in by_label.items():
            found.setdefault(label, []).extend((rank, identifier, shard) for rank, identifier in members)
    return {
        label: [(shard, identifier) for _, identifier, shard in sorted(members)[:per_label]]
        for label, members in found.items()
    }


def write_samples(
    full_path: str,
    chosen: Mapping[str, list[tuple[str, str]]],
    places: Mapping[str, tuple[NamedInput, str]],
    characters: int,
    notes: Callable[[str, set[str]], dict[str, dict[str, Any]]] | None = None,
) -> None:
    """Writes the chosen documents as JSON, by label in the order of `chosen`, reading each shard once.

    Args:
        full_path: of the file.
        chosen: from `chosen_samples`.
        places: source and file name of each shard named in `chosen`.
        characters: texts are cut to so many.
        notes: called with a shard's name and ids, returns what is to stand beside each document, by id.
    """
    wanted: dict[str, set[str]] = {}
    for members in chosen.values():
        for shard, identifier in members:
            wanted.setdefault(shard, set()).add(identifier)
    shown = {
        (shard, each["id"]): each
        for shard, ids in wanted.items()
        for each in _shown(*places[shard], ids, characters, notes(shard, ids) if notes else {})
    }
    samples = {label: [shown[place] for place in members] for label, members in chosen.items()}
    write_bytes(full_path, json.dumps(samples, indent=1, ensure_ascii=False).encode())


def _shown(
    source: NamedInput, shard: str, ids: set[str], characters: int, notes: dict[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    documents = read_documents(source.path, shard, ["id", "text", "source_id"])
    for row, identifier in enumerate(documents["id"].to_pylist()):
        if identifier in ids:
            text = documents["text"][row].as_py()
            place = {"id": identifier, "source": source.name, "source_id": documents["source_id"][row].as_py()}
            yield place | notes.get(identifier, {}) | {"characters": len(text), "text": text[:characters]}
