"""The cube of sources, topics and quality buckets as two tables to switch between, with exact counts of kept documents."""

import math
from collections import defaultdict
from typing import Any

from markupsafe import Markup

from steps.report.elements import element, join
from steps.report.gather_data import NUM_BUCKETS

SHADES = 8
"""Steps of the sequential ramp above 0."""


def heat_tables(cube: list[dict[str, Any]], topics: list[dict[str, Any]], sources: list[str]) -> list[dict[str, Any]]:
    """Returns one table for rows of topics and one for rows of sources.

    Each is {"axis", "columns", "rows", "total"}; a row has `label`, `title`, `documents_in`, `documents_kept`, `buckets`
    and `others`: cells {"documents", "shade", "title", "spark"}. Shades go by the square root of the count, within each
    of the two groups of columns.
    """
    by_topic = [(topic["topic"], topic["name"], ", ".join(topic["terms"])) for topic in topics]
    known = {topic for topic, _, _ in by_topic}
    by_topic += [(t, f"topic {t}", "") for t in sorted({row["topic"] for row in cube} - known)]
    by_source = [(source, source, "") for source in sources]
    return [_table("topic", by_topic, "source", by_source, cube), _table("source", by_source, "topic", by_topic, cube)]


def _table(
    axis: str,
    keys: list[tuple[Any, str, str]],
    other: str,
    others: list[tuple[Any, str, str]],
    cube: list[dict[str, Any]],
) -> dict[str, Any]:
    buckets: dict[Any, list[int]] = defaultdict(lambda: [0] * NUM_BUCKETS)
    cells: dict[Any, list[int]] = defaultdict(lambda: [0] * NUM_BUCKETS)
    came: dict[Any, int] = defaultdict(int)
    for row in cube:
        buckets[row[axis]][row["bucket"]] += row["documents_kept"]
        cells[row[axis], row[other]][row["bucket"]] += row["documents_kept"]
        came[row[axis]] += row["documents_in"]
    most_bucket = max((n for each in buckets.values() for n in each), default=0)
    most_cell = max((sum(each) for each in cells.values()), default=0)
    rows = [
        {
            "label": label,
            "title": title,
            "documents_in": came[key],
            "documents_kept": sum(buckets[key]),
            "buckets": [
                {"documents": n, "shade": shade(n, most_bucket), "title": f"{label}, quality {q}: {n:,} documents"}
                for q, n in enumerate(buckets[key])
            ],
            "others": [_cell(f"{label}, {name}", cells[key, each], most_cell) for each, name, _ in others],
        }
        for key, label, title in keys
    ]
    total = [sum(row["buckets"][q]["documents"] for row in rows) for q in range(NUM_BUCKETS)]
    return {
        "axis": axis,
        "other": other,
        "columns": [{"label": name, "title": title} for _, name, title in others],
        "rows": rows,
        "total": {
            "buckets": total,
            "others": [sum(row["others"][i]["documents"] for row in rows) for i in range(len(others))],
            "documents_in": sum(row["documents_in"] for row in rows),
            "documents_kept": sum(total),
        },
    }


def _cell(label: str, counts: list[int], most: int) -> dict[str, Any]:
    listed = ", ".join(f"{q}: {n:,}" for q, n in enumerate(counts))
    return {
        "documents": sum(counts),
        "counts": counts,
        "shade": shade(sum(counts), most),
        "title": f"{label}: {sum(counts):,} documents; by quality {listed}",
        "spark": _spark(counts),
    }


def shade(count: float, most: float) -> int:
    """Returns 0 to `SHADES`, by the square root."""
    return math.ceil(SHADES * math.sqrt(count / most)) if count else 0


def _spark(counts: list[int]) -> Markup:
    """Five bars, worst quality first, the highest of the cell full."""
    if not any(counts):
        return Markup("")
    most = max(counts)
    bars = [
        element("rect", x=7 * q, y=round(12 - 12 * n / most, 1), width=6, height=round(max(12 * n / most, 0.6), 1))
        for q, n in enumerate(counts)
    ]
    return element("svg", join(bars), class_="spark", viewBox="0 0 34 12", width=34, height=12, aria_hidden="true")
