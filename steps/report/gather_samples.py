"""A few removed documents, each with what it was removed for: the part of a report that people read first.

Samples are chosen by seeded hashes of ids, so a page shows the same ones however the documents were sharded.
"""

from typing import Any

import xxhash

from steps.documents import NamedInput, read_table, shard_names
from steps.report.outputs import read_json

MAX_HEURISTIC_SAMPLES = 6
_MAX_REASONS = 3


def gather_samples(
    sources: tuple[NamedInput, ...], fuzzy: str, heuristics: str, contaminated: str, *, per_reason: int, characters: int
) -> list[dict[str, Any]]:
    """Returns removed documents: stage, reason, source, source_id, id, and the beginning of their text.

    Args:
        sources: documents data sets, to look texts up in.
        fuzzy: output of dedup/fuzzy.
        heuristics: output of quality/heuristics.
        contaminated: output of decontaminate/ngrams.
        per_reason: samples of each heuristic rule and benchmark, and of near duplicates three times as many.
        characters: texts are cut to so many.
    """
    samples = _near_duplicates(sources, fuzzy, 3 * per_reason)
    rules = read_json(f"{heuristics}/samples.json")
    chosen = [each for members in rules.values() for each in members[:per_reason]]
    seen: set[str] = set()
    for each in chosen:
        if each["id"] in seen or len(seen) >= MAX_HEURISTIC_SAMPLES:
            continue
        seen.add(each["id"])
        samples.append(_sample("heuristics", _first_reasons(each["reasons"]), each, each["text"]))
    for benchmark, members in read_json(f"{contaminated}/flagged_samples.json").items():
        for each in members[:per_reason]:
            reason = (
                f"{each['max_overlap']:.0%} of a paragraph's word n-grams are in {benchmark}, such as {each['example']}"
            )
            samples.append(_sample("contaminated", reason, each, each["matched_text"]))
    return [{**each, "text": each["text"][:characters], "cut": len(each["text"]) > characters} for each in samples]


def _first_reasons(reasons: str) -> str:
    every = reasons.split(", ")
    more = len(every) - _MAX_REASONS
    return ", ".join(every[:_MAX_REASONS]) + (f" and {more} more" if more > 0 else "")


def _sample(stage: str, reason: str, document: dict[str, Any], text: str) -> dict[str, Any]:
    keys = {key: document[key] for key in ("id", "source", "source_id")}
    return {"stage": stage, "reason": reason, **keys, "text": text}


def _near_duplicates(sources: tuple[NamedInput, ...], fuzzy: str, count: int) -> list[dict[str, Any]]:
    hits = []
    for source in sources:
        for shard in shard_names(source.path):
            for row in read_table(f"{fuzzy}/{source.name}", shard).to_pylist():
                hits.append((xxhash.xxh3_64_intdigest(row["id"].encode()), source, shard, row))
    hits.sort(key=lambda hit: hit[0])
    paths = {source.name: source.path for source in sources}
    samples = []
    for _, source, shard, row in hits[:count]:
        document = _document(source.path, [shard], row["id"])
        kept = _kept(paths.get(row["kept_source"]), row["kept_id"])
        reason = f"{row['containment']:.0%} of its word n-grams are in {row['kept_source']}: {kept['source_id']}"
        samples.append(
            _sample("fuzzy_duplicate", reason, {**document, "source": source.name}, document["text"])
            | {"kept": {"id": kept["id"], "source": row["kept_source"], "source_id": kept["source_id"]}}
        )
    return samples


def _kept(path: str | None, identifier: str) -> dict[str, str]:
    """The kept document; its source may be one of an earlier run that this one was compared with."""
    if path is None:
        return {"id": identifier, "source_id": f"{identifier} (of an earlier run)", "text": ""}
    return _document(path, shard_names(path), identifier)


def _document(path: str, shards: list[str], identifier: str) -> dict[str, str]:
    for shard in shards:
        ids = read_table(path, shard, ["id"])["id"].to_pylist()  # ids first: texts are read of one shard only
        if identifier in ids:
            return read_table(path, shard, ["id", "source_id", "text"]).slice(ids.index(identifier), 1).to_pylist()[0]
    return {"id": identifier, "source_id": "(not in the documents given)", "text": ""}
