"""What the decontamination page shows, as plain JSON, from the tables of decontaminate/ngrams."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from steps.documents import read_table
from steps.report.masking import masked
from steps.report.outputs import read_json, recorded_config
from steps.report.removed_samples import contaminated, withheld_benchmark
from steps.report.shown import Shower

if TYPE_CHECKING:
    from steps.report.decontamination import DecontaminationReportConfig

_DOCUMENTS = "documents:"
_MOST_NAMED = 3
_SETTINGS = ("ngram_words", "shortest_words", "shortest_run_words", "thresholds.", "boilerplate.")


def gather(config: "DecontaminationReportConfig", shower: Shower) -> dict[str, Any]:
    """Returns the page's values."""
    counts = read_json(f"{config.contaminated}/counts.json")
    items = read_table(config.contaminated, "hits_by_item.parquet").to_pylist()
    met = Counter(item["benchmark"] for item in items)
    benchmarks = [
        {
            "benchmark": name,
            "records": records,
            "records_without_features": counts["records_without_features"][name],
            "features": counts["features_by_benchmark"][name],
            "items_met": met[name],
            "flagged": counts["contaminated_by_benchmark"][name],
        }
        for name, records in counts["records"].items()
    ]
    sources = [
        {
            "source": name,
            "documents": documents,
            "flagged": counts["contaminated"][name],
            "skipped": counts["documents_skipped"][name],
            "features_dropped": counts["features_dropped_in_source"][name],
            "withheld": shower.withheld(name),
        }
        for name, documents in counts["documents_in"].items()
    ]
    settings = recorded_config(config.contaminated)
    return {
        "format": "report/decontamination/1",
        "settings": {name: value for name, value in settings.items() if name.startswith(_SETTINGS)},
        "benchmarks": benchmarks,
        "sources": sources,
        "items": items[: config.items_shown],
        "items_met": len(items),
        "samples": contaminated(config.contaminated, shower, config.samples_per_benchmark, config.characters),
        **_dropped(config, shower),
        "features": counts["features"],
        "comparison": None if config.comparison is None else _comparison(config.comparison, config.changes_shown),
    }


def _dropped(config: "DecontaminationReportConfig", shower: Shower) -> dict[str, Any]:
    """N-grams that were met and say nothing, those in most documents first."""
    table = read_table(config.contaminated, "evidence/boilerplate.parquet")
    names = [name for name in table.column_names if name.startswith(_DOCUMENTS)]
    rows = [_dropped_row(row, names, shower) for row in table.to_pylist()]
    rows.sort(key=lambda row: (-row["documents"], row["feature"]))
    everywhere = sum(table["everywhere"].to_pylist())
    return {"dropped": rows[: config.dropped_shown], "num_dropped": len(rows), "dropped_everywhere": everywhere}


def _dropped_row(row: dict[str, Any], names: list[str], shower: Shower) -> dict[str, Any]:
    documents = Counter({name.removeprefix(_DOCUMENTS): row[name] for name in names if row[name]})
    benchmarks = list(dict.fromkeys(record.partition(":")[0] for record in row["records"]))
    withheld = next((reason for name in benchmarks if (reason := withheld_benchmark(name, shower))), "")
    return {
        "feature": f"{row['feature']:016x}",
        "text": "" if withheld else masked(row["text"], cut_before=True, cut_after=True),
        "withheld": withheld,
        "benchmarks": benchmarks[:_MOST_NAMED],
        "num_benchmarks": len(benchmarks),
        "records": len(row["records"]),
        "documents": documents.total(),
        "sources": dict(documents.most_common(_MOST_NAMED)),
        "num_sources": len(documents),
        "everywhere": row["everywhere"],
    }


def _comparison(path: str, shown: int) -> dict[str, Any]:
    rows = read_table(path, "changes.parquet").to_pylist()
    return {
        "documents": len(rows),
        "by_change": dict(Counter(row["change"] for row in rows).most_common()),
        "rows": rows[:shown],
    }
