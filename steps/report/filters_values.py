"""What the filters page shows, as plain JSON, counted from the tables of quality/heuristics."""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from steps.documents import join_dense, read_table, shard_names
from steps.report.outputs import read_json
from steps.report.removed_samples import by_rule
from steps.report.shown import Shower

if TYPE_CHECKING:
    from steps.report.filters import FiltersReportConfig

_BINS, _MOST_LIMITS = 40, 3
_NO_SCORES = frozenset(("id", "keep", "reasons", "language", "language_score"))


def gather(config: "FiltersReportConfig") -> dict[str, Any]:
    """Returns the page's values."""
    counts = _Counts()
    for source in read_json(f"{config.heuristics}/quantiles.json")["scores"]:
        for shard in shard_names(f"{config.heuristics}/{source}"):
            counts.add(source, _shard(config, source, shard))
    rules = counts.rules.most_common()
    total, removed = (sum(group[at] for group in counts.groups["source"].values()) for at in (0, 1))
    return {
        "format": "report/filters/2",
        "documents": total,
        "removed": removed,
        "rules": [
            {"rule": rule, "removed": count, "alone": counts.alone[rule], "limits": sorted(counts.limits[rule])}
            for rule, count in rules
        ],
        "histograms": {
            rule: _histogram(np.concatenate(counts.scores[rule]), [x for x, _ in counts.limits[rule].most_common(_MOST_LIMITS)])
            for rule, _ in rules
            if rule in counts.scores
        },
        "by": {
            name: [{name: key, "documents": group[0], "removed": group[1]} for key, group in sorted(groups.items())]
            for name, groups in counts.groups.items()
            if name == "source" or config.languages is not None
        },
        "samples": by_rule(config.heuristics, Shower.of(config.cards, config.characters), config.samples_per_rule),
    }  # fmt: skip


class _Counts:
    """What the tables of all shards add up to."""

    def __init__(self) -> None:
        self.rules: Counter[str] = Counter()
        self.alone: Counter[str] = Counter()
        self.limits: dict[str, Counter[float]] = defaultdict(Counter)
        self.groups: dict[str, dict[str, list[int]]] = {
            name: defaultdict(lambda: [0, 0]) for name in ("source", "language")
        }
        self.scores: dict[str, list[np.ndarray]] = defaultdict(list)

    def add(self, source: str, table: pa.Table) -> None:
        for row in table.select(["reasons", "language"]).to_pylist():
            broken = [reason.split(": ", 1) for reason in row["reasons"].split(", ") if reason]
            self.rules.update(rule for rule, _ in broken)
            self.alone.update(rule for rule, _ in broken if len(broken) == 1)
            for rule, comparison in broken:
                self.limits[rule][float(comparison.split()[-1])] += 1
            for name, key in (("source", source), ("language", row["language"])):
                self.groups[name][key][0] += 1
                self.groups[name][key][1] += bool(broken)
        for name in set(table.column_names) - _NO_SCORES:
            if pa.types.is_floating(table[name].type) or pa.types.is_integer(table[name].type):
                self.scores[name].append(table[name].to_numpy())


def _shard(config: "FiltersReportConfig", source: str, shard: str) -> pa.Table:
    table = read_table(f"{config.heuristics}/{source}", shard)
    if config.heuristic_scores is not None:
        where = f"{config.heuristic_scores}/{source}"
        table = join_dense(table, read_table(where, shard), f"{where}/{shard}")
    if config.languages is None:
        return table.append_column("language", pa.array([""] * len(table), pa.string()))
    where = f"{config.languages}/{source}"
    return join_dense(table, read_table(where, shard, ["id", "language"]), f"{where}/{shard}")


def _histogram(values: np.ndarray, limits: list[float]) -> dict[str, Any]:
    """Counts in equal bins from the 1st to the 99th percentile and past the limits; the end bins hold all beyond."""
    values = values[np.isfinite(values)].astype(float)
    low, high = (float(f([*limits, *np.quantile(values, (0.01, 0.99))])) for f in (min, max))
    high = high if high > low else low + 1.0
    counts, edges = np.histogram(np.clip(values, low, high), bins=_BINS, range=(low, high))
    return {"limits": limits, "edges": [round(float(edge), 6) for edge in edges], "counts": counts.tolist()}
