"""Removed documents to be read, each with its reason, from the samples that the judging steps wrote."""

from typing import Any

from steps.documents import read_table
from steps.report.masking import masked
from steps.report.outputs import read_json
from steps.report.shown import Shower
from steps.report.side_by_side import Segments, cut, differing, marked


def near_duplicates(fuzzy: str, shower: Shower, *, verdict: str, per_source: int) -> list[dict[str, Any]]:
    """Returns pairs of `audit.parquet` with the words marked that differ.

    Args:
        fuzzy: output of dedup/fuzzy.
        shower: decides what is shown of either side; words of a withheld one stand nowhere.
        verdict: "removed", or "kept" for those that only just stayed.
        per_source: at most so many of each source.
    """
    seen: dict[str, int] = {}
    pairs = []
    for row in read_table(fuzzy, "audit.parquet").to_pylist():
        if row["verdict"] != verdict or seen.get(row["source"], 0) >= per_source:
            continue
        seen[row["source"]] = seen.get(row["source"], 0) + 1
        pairs.append(_pair(row, shower))
    return pairs


def _pair(row: dict[str, Any], shower: Shower) -> dict[str, Any]:
    sides = {
        "document": shower.passage(row["source"], row["excerpt"], more_after=True),
        "kept": shower.passage(row["kept_source"], row["kept_excerpt"], more_after=True),
    }
    texts = [each["text"] for each in sides.values()]
    shown = not any(each["withheld"] for each in sides.values())
    segments = differing(*texts) if shown else [[(text, False)] if text else [] for text in texts]
    keys = (
        "source",
        "id",
        "kept_source",
        "kept_id",
        "containment",
        "jaccard",
        "num_words",
        "kept_num_words",
        "num_novel_words",
    )
    return {
        **{key: row[key] for key in keys},
        "novel_words": row["novel_words"] if shown else [],
        "withheld": {name: each["withheld"] for name, each in sides.items()},
        "segments": dict(zip(sides, segments, strict=True)),
    }


def by_rule(heuristics: str, shower: Shower, per_rule: int) -> dict[str, list[dict[str, Any]]]:
    """Returns {"id", "source", "source_id", "reasons", "passage"} of removed documents by rule."""
    return {
        rule: [
            {
                "id": each["id"],
                "source": each["source"],
                "source_id": shower.name(each["source"], each["source_id"]),
                "reasons": each["reasons"],
                "passage": shower.passage(each["source"], each["text"], total=each.get("characters"), more_after=True),
            }
            for each in members[:per_rule]
        ]
        for rule, members in read_json(f"{heuristics}/samples.json").items()
    }


def contaminated(
    path: str, shower: Shower, per_benchmark: int, characters: int = 2_000
) -> dict[str, list[dict[str, Any]]]:
    """Returns removed documents by benchmark: the paragraph that gave each away beside the item, what they share marked.

    Args:
        path: output of decontaminate/ngrams.
        shower: decides what is shown of either.
        per_benchmark: at most so many of each.
        characters: either is cut to so many.
    """
    return {
        benchmark: [_contaminated(each, shower, characters) for each in members[:per_benchmark]]
        for benchmark, members in read_json(f"{path}/flagged_samples.json").items()
    }


def withheld_benchmark(benchmark: str, shower: Shower) -> str:
    """Returns why a benchmark's text is not shown, or "": held-out documents, as "heldout-<source>" or under their source's
    name, are shown as their source is.
    """
    source = benchmark.removeprefix("heldout-")
    return shower.withheld(source) if source != benchmark or source in shower.cards else ""


def _contaminated(each: dict[str, Any], shower: Shower, characters: int) -> dict[str, Any]:
    reasons = [shower.withheld(each["source"]), *(withheld_benchmark(name, shower) for name in each["benchmarks"])]
    reason = next((reason for reason in reasons if reason), "")
    keys = ("id", "source", "benchmarks", "example", "max_overlap", "coverage", "num_hits")
    sides = ("paragraph", "item")
    return {
        **{key: each[key] for key in keys},
        "source_id": shower.name(each["source"], each["source_id"]),
        "withheld": reason,
        "segments": {} if reason else {side: cut(_masked_marks(each[side]), characters) for side in sides},
        "cut": {side: each[side]["cut"] or len(each[side]["text"]) > characters for side in sides},
    }


def _masked_marks(passage: dict[str, Any]) -> Segments:
    """Masks a marked passage part by part, its beginning and end as cuts: a mark may stand inside an address."""
    parts = marked(passage["text"], passage["marks"])
    if masked(passage["text"], cut_before=True, cut_after=passage["cut"]) != "".join(masked(text) for text, _ in parts):
        return [(masked(passage["text"], cut_before=True, cut_after=passage["cut"]), False)]
    return [(masked(text), shared) for text, shared in parts]
