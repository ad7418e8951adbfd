"""The data half of the report: funnel, cube, topics, quality labels and their student, mixture."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from steps.mix.mixture import Mixture, read_mixture
from steps.quality.labels import agreement, first_readings, read_labels
from steps.report.outputs import read_json, recorded_result

STAGE_LABELS = {
    "exact_duplicate": "exact duplicates",
    "fuzzy_duplicate": "near duplicates",
    "heuristics": "heuristic rules",
    "contaminated": "benchmark overlap",
    "held_out": "held out for evaluation",
}
"""What removes documents, in the words of the page, by fate."""
REASONS_ARE = {
    "exact_duplicate": "copy kept in",
    "fuzzy_duplicate": "copy kept in",
    "heuristics": "by",
    "contaminated": "in",
}
"""What the reasons counted for a fate are; fates that are missing have one reason only."""
NUM_BUCKETS = 5


def gather_funnel(cells: str) -> dict[str, Any]:
    """Returns mix/cells' funnel with labels, each stage's commonest reasons, and what came in and stayed by source."""
    funnel = read_json(f"{cells}/funnel.json")
    stages = [
        {
            **stage,
            "label": STAGE_LABELS.get(stage["stage"], stage["stage"]),
            "reasons": dict(Counter(funnel["by_reason"].get(stage["stage"], {})).most_common(6)),
            "reasons_are": REASONS_ARE.get(stage["stage"], ""),
        }
        for stage in funnel["stages"]
    ]
    by_source = [
        {
            "source": source,
            "documents_in": sum(each["documents"] for each in fates.values()),
            "bytes_in": sum(each["bytes"] for each in fates.values()),
            "removed_documents": {stage["stage"]: fates[stage["stage"]]["documents"] for stage in stages},
            "documents_kept": fates["kept"]["documents"],
            "bytes_kept": fates["kept"]["bytes"],
        }
        for source, fates in funnel["by_source"].items()
    ]
    totals = {key: funnel[key] for key in ("documents_in", "bytes_in", "documents_kept", "bytes_kept")}
    return {**totals, "stages": stages, "by_source": by_source}


def gather_topics(topics: str) -> list[dict[str, Any]]:
    """Returns each topic's number, name, terms and documents, largest first."""
    rows = read_json(f"{topics}/topics.json")["topics"]
    keys = ("topic", "name", "terms", "documents", "documents_by_source")
    return [{key: row[key] for key in keys} for row in sorted(rows, key=lambda row: (-row["documents"], row["topic"]))]


def gather_quality(labels: str, classifier: str) -> dict[str, Any]:
    """Returns the labels' counts and agreement, and the student's figures beside its baselines (None without a record)."""
    return {"labels": gather_labels(labels), "classifier": recorded_result(classifier)}


def gather_labels(labels: str) -> dict[str, Any]:
    """Returns counts of the labels that a step wrote, by each document's first reading, and their agreement or None."""
    read = read_labels(f"{labels}/labels.jsonl")
    pairs = agreement(read)
    first = first_readings(read)
    return {
        "documents": len(first),
        "readings": len(read),
        "readers": sorted({label.reader for label in read}),
        "score_counts": {str(score): sum(label.score == score for label in first) for score in range(1, 6)},
        "content_type_counts": dict(Counter(label.content_type for label in first).most_common()),
        "agreement": asdict(pairs) if pairs else None,
    }


def gather_mixture(mixture: str, tokens: str) -> dict[str, Any]:
    """Returns each component's tokens, weights by phase and epochs under the largest budget, most tokens first."""
    read: Mixture = read_mixture(mixture)
    largest = read.budgets_tokens.index(max(read.budgets_tokens))
    components = [
        {
            "name": each.name,
            "cells": list(each.cells),
            "tokens": each.tokens,
            "shares": [count / read.block_sequences for count in each.counts],
            "epochs": each.exposures[largest],
        }
        for each in read.components
    ]
    index = read_json(f"{tokens}/index.json")
    return {
        "phase_starts": list(read.phase_starts),
        "largest_budget_tokens": read.budgets_tokens[largest],
        "sequence_length_tokens": read.sequence_length,
        "block_sequences": read.block_sequences,
        "max_epochs": read.max_epochs,
        "capped": list(read.capped),
        "rounded_to_zero": list(read.rounded_to_zero),
        "vocabulary_size": index["vocabulary_size"],
        "train_tokens": sum(cell["tokens"] for cell in index["cells"]),
        "train_bytes": sum(cell["bytes"] for cell in index["cells"]),
        "num_cells": len(index["cells"]),
        "components": sorted(components, key=lambda each: (-each["tokens"], each["name"])),
    }


def gather_cube(cells: str) -> list[dict[str, Any]]:
    """Returns mix/cells' exact counts: one row for each source, topic and quality bucket that came in."""
    return read_json(f"{cells}/cube.json")
