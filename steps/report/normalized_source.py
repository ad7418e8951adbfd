"""What the page of normalised sources shows of one source, as plain JSON: counts, languages, and documents to be read."""

import ast
from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from marin_exec import ShardOut, StepFailed
from steps.contract import document_shards, read_documents
from steps.documents import document_id, read_table, shard_names
from steps.language.language import UNDETERMINED
from steps.normalize.cleaning import Cleaned, cleaner
from steps.report.outputs import recorded_config, recorded_result
from steps.report.shown import Shower
from steps.report.side_by_side import differing
from steps.seeded_ranks import choice_rank
from steps.sources.raw import read_raw

CHANGES = {
    "whitespace_capped": "white space cut",
    "recomposed": "characters composed",
    "controls_removed": "control characters out",
    "repeats_capped": "repeats cut",
}
"""What normalising does to a text, in the words of the page, by counter of its result."""
REASONS = {"blank": "blank", "exact_duplicate": "copies"}
"""Why it drops one."""
_BEFORE_CHANGE = 250  # characters shown before the first one that was changed
_MOST_NAMED = 20


@dataclass(frozen=True)
class SourceTask:
    name: str
    path: str
    raw: str | None
    languages: str | None
    shower: Shower
    samples: int
    low_score: float
    seed: int


def source_facts(task: SourceTask, shard: ShardOut) -> dict[str, Any]:
    """Returns all that the page shows of the source."""
    card = task.shower.cards.get(task.name)
    removed = read_table(task.path, "removed.parquet")
    result = recorded_result(task.path) or {}
    documents, problem = _checked(task.path)
    facts: dict[str, Any] = {
        "source": task.name,
        "documents_in": documents + removed.num_rows,
        "bytes_in": result.get("bytes_in"),
        "documents": documents,
        "bytes": result.get("num_bytes"),
        "removed": {reason: removed.filter(pc.field("reason") == reason).num_rows for reason in REASONS},
        "changed": {name: result.get(name) for name in CHANGES},
        "shards": len(shard_names(task.path)),
        "problem": problem,
        "card": None if card is None else _card(task),
        "withheld": task.shower.withheld(task.name),
        "removed_samples": _removed(task, removed),
        "changed_samples": _changed(task) if any(result.get(name) for name in CHANGES) else [],
        "languages": None if task.languages is None else _languages(task),
    }
    return facts


def _card(task: SourceTask) -> dict[str, Any]:
    card = task.shower.cards[task.name]
    keys = ("kind", "origin", "licence", "limits", "show")
    return {**{key: getattr(card, key) for key in keys}, "languages": list(card.languages)}


def _checked(path: str) -> tuple[int, str]:
    """The number of documents, and what breaks the contract, which the page says rather than none of its figures."""
    documents = sum(read_table(path, shard, ["id"]).num_rows for shard in shard_names(path))
    try:
        for shard in document_shards(path):
            read_documents(path, shard)
    except StepFailed as error:
        return documents, str(error)
    return documents, ""


def _lowest(task: SourceTask, identifiers: list[str]) -> list[str]:
    return nsmallest(task.samples, set(identifiers), key=lambda each: (choice_rank(task.seed, each), each))


def _documents(task: SourceTask, wanted: list[str]) -> dict[str, dict[str, Any]]:
    """The documents of these ids, wherever they stand; texts are read of the shards that hold one."""
    found = {}
    for shard in shard_names(task.path) if wanted else ():
        mask = [identifier in wanted for identifier in read_table(task.path, shard, ["id"])["id"].to_pylist()]
        if any(mask):
            rows = read_table(task.path, shard, ["id", "source_id", "text"]).filter(pa.array(mask))
            found |= {row["id"]: row for row in rows.to_pylist()}
    if missing := sorted(set(wanted) - set(found)):
        raise StepFailed(
            f"report: document {missing[0]} of source {task.name!r} is not in {task.path}; give the languages of these "
            f"documents, or of a part of them"
        )
    return found


def _removed(task: SourceTask, removed: pa.Table) -> list[dict[str, Any]]:
    """Copies with the text that they share with the one that stayed; blank texts have nothing to show but their names."""
    copies = removed.filter(pc.field("reason") == "exact_duplicate").to_pylist()
    chosen = _lowest(task, [row["id"] for row in copies])
    documents = _documents(task, chosen)
    samples = []
    for identifier in chosen:
        names = [task.shower.name(task.name, row["source_id"]) for row in copies if row["id"] == identifier]
        row = documents[identifier]
        samples.append(
            {
                "id": identifier,
                "kept": task.shower.name(task.name, row["source_id"]),
                "copies": len(names),
                "names": [name for name in names if name][:_MOST_NAMED],
                "passage": task.shower.passage(task.name, row["text"]),
            }
        )
    return samples


def _changed(task: SourceTask) -> list[dict[str, Any]]:
    """Raw texts beside what was made of them, by cleaning once more as the source's record says it was done."""
    settings = {name: ast.literal_eval(value) for name, value in recorded_config(task.path).items() if name != "source"}
    if task.raw is None or not settings:
        return []
    clean = cleaner(
        settings["unicode_form"] == "NFC",
        settings["control_characters"],
        settings["whitespace_run_characters"],
        settings["repeated_run_characters"],
    )
    found: dict[str, tuple[str, str, Cleaned]] = {}
    for each in read_raw(task.raw):
        cleaned = clean(each.text)
        if any(cleaned[1:]) and not (cleaned.text == "" or cleaned.text.isspace()):
            found[document_id(cleaned.text)] = (each.source_id, each.text, cleaned)
            if len(found) > 2 * task.samples:
                found = {identifier: found[identifier] for identifier in _lowest(task, list(found))}
    return [_change(task, identifier, *found[identifier]) for identifier in _lowest(task, list(found))]


def _change(task: SourceTask, identifier: str, source_id: str, before: str, cleaned: Cleaned) -> dict[str, Any]:
    after = cleaned.text
    first = next(
        (at for at, (x, y) in enumerate(zip(before, after, strict=False)) if x != y), min(len(before), len(after))
    )
    start = max(0, first - _BEFORE_CHANGE)
    sides = {
        name: task.shower.passage(task.name, text, start=start) for name, text in (("raw", before), ("document", after))
    }
    texts = [sides[name].pop("text") for name in sides]
    return {
        "id": identifier,
        "source_id": task.shower.name(task.name, source_id),
        "changes": [name for name in CHANGES if getattr(cleaned, name)],
        "characters": [len(before), len(after)],
        "passages": sides,
        "segments": dict(zip(sides, differing(*texts), strict=True)),
    }


def _languages(task: SourceTask) -> dict[str, Any]:
    folder = f"{task.languages}/{task.name}"
    columns = ["id", "language", "language_score"]
    table = pa.concat_tables([read_table(folder, shard, columns) for shard in shard_names(folder)])
    scores = table["language_score"].to_numpy()
    card = task.shower.cards.get(task.name)
    declared = list(card.languages) if card is not None else []
    ids = table["id"].to_pylist()
    identified = table["language"].to_pylist()
    others = {
        i: at for at, (i, name) in enumerate(zip(ids, identified, strict=True)) if name not in (*declared, UNDETERMINED)
    }
    chosen = _lowest(task, list(others)) if declared else []
    documents = _documents(task, chosen)
    return {
        "documents": len(ids),
        "declared": declared,
        "identified": dict(Counter(identified).most_common()),
        "low_scores": int((scores < task.low_score).sum()),
        "mean_score": round(float(scores.mean()), 4) if len(scores) else None,
        "samples": [
            {
                "id": identifier,
                "language": identified[others[identifier]],
                "score": round(float(scores[others[identifier]]), 4),
                "source_id": task.shower.name(task.name, documents[identifier]["source_id"]),
                "passage": task.shower.passage(task.name, documents[identifier]["text"]),
            }
            for identifier in chosen
        ],
    }
