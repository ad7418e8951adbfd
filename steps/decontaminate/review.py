"""The step "decontaminate/review": a page on which a person can see what was flagged and why.

    index.html     one self-contained page: no network, no scripts
    review.json    all that is on it

Counts by benchmark, source and item; then, for each benchmark, flagged documents beside the item that they hold, with what both
share marked. Texts are escaped, e-mail addresses and telephone numbers masked, and of sources that must not be shown only
counts and ids are. The page is drawn from review.json's values alone, which come from decontaminate/ngrams as it wrote them.
"""

from dataclasses import dataclass
from typing import Any

from marin_exec import InputPath, Out, kind
from steps.config_checks import check_number
from steps.decontaminate.masked import masked_passage
from steps.documents import read_table
from steps.files import write_bytes, write_json

FORMAT = "decontaminate/review/1"


@dataclass(frozen=True, kw_only=True)
class ReviewConfig:
    contaminated: InputPath
    """Output of decontaminate/ngrams."""
    comparison: InputPath | None = None
    """Output of decontaminate/compare, to show which documents changed."""
    title: str = "Decontamination"
    """Heading of the page."""
    never_show: tuple[str, ...] = ()
    """Sources whose texts are withheld."""
    items_shown: int = 100
    """Of the items met, so many are listed: those of which a document has most."""
    changes_shown: int = 200
    """Of the comparison's documents, so many are listed."""

    def __post_init__(self) -> None:
        check_number(self, "items_shown", "changes_shown", low=0)


@dataclass(frozen=True)
class ReviewResult:
    page: str
    """Below the output."""
    documents_flagged: int
    hits_shown: int
    """Documents shown; one that is flagged for two benchmarks is shown under both."""
    hits_withheld: int
    """Those of sources that must not be shown."""
    page_bytes: int


@kind("decontaminate/review", version=1)
def review(config: ReviewConfig, out: Out) -> ReviewResult:
    """Writes `index.html` and `review.json`.

    Raises:
        StepFailed: an input lacks a file that the page shows.
    """
    from steps.decontaminate.review_page import render_review

    values = gather(config)
    page = render_review(values).encode()
    write_json(out.file("review.json"), values)
    write_bytes(out.file("index.html"), page)
    hits = [hit for each in values["benchmarks"] for hit in each["hits"]]
    return ReviewResult(
        page="index.html",
        documents_flagged=sum(each["flagged"] for each in values["sources"]),
        hits_shown=sum(not hit["withheld"] for hit in hits),
        hits_withheld=sum(hit["withheld"] for hit in hits),
        page_bytes=len(page),
    )


def gather(config: ReviewConfig) -> dict[str, Any]:
    """Returns the page's values as plain JSON."""
    from steps.report.outputs import read_json

    counts = read_json(f"{config.contaminated}/counts.json")
    samples = read_json(f"{config.contaminated}/flagged_samples.json")
    items = read_table(config.contaminated, "hits_by_item.parquet").to_pylist()
    benchmarks = [
        {
            "name": name,
            "records": records,
            "records_without_features": counts["records_without_features"][name],
            "features": counts["features_by_benchmark"][name],
            "flagged": counts["contaminated_by_benchmark"][name],
            "items_met": sum(item["benchmark"] == name for item in items),
            "hits": [_hit(sample, config.never_show) for sample in samples.get(name, [])],
        }
        for name, records in counts["records"].items()
    ]
    sources = [
        {
            "name": name,
            "documents": documents,
            "flagged": counts["contaminated"][name],
            "skipped": counts["documents_skipped"][name],
            "features_dropped": counts["features_dropped_in_source"][name],
            "shown": name not in config.never_show,
        }
        for name, documents in counts["documents_in"].items()
    ]
    return {
        "format": FORMAT,
        "title": config.title,
        "benchmarks": benchmarks,
        "sources": sources,
        "items": items[: config.items_shown],
        "items_met": len(items),
        "features_dropped": counts["features_dropped"],
        "comparison": _comparison(config) if config.comparison is not None else None,
    }


def _hit(sample: dict[str, Any], never_show: tuple[str, ...]) -> dict[str, Any]:
    withheld = sample["source"] in never_show
    names = ("id", "source", "benchmarks", "example", "max_overlap", "coverage", "num_hits")
    hit = {name: sample[name] for name in names} | {"withheld": withheld}
    if not withheld:
        hit |= {name: masked_passage(sample[name]) for name in ("paragraph", "item")}
    return hit


def _comparison(config: ReviewConfig) -> dict[str, Any]:
    rows = read_table(str(config.comparison), "changes.parquet").to_pylist()
    tally: dict[str, int] = {}
    for row in rows:
        tally[row["change"]] = tally.get(row["change"], 0) + 1
    return {"documents": len(rows), "by_change": tally, "rows": rows[: config.changes_shown]}
