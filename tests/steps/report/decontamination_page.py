"""The page of decontaminate/ngrams over hostile text, and of a comparison, made once a process for the tests that look at it."""

import functools
import tempfile
from pathlib import Path

from steps.decontaminate.compare import CompareConfig, compare
from steps.decontaminate.rules import Boilerplate, Thresholds
from steps.report.decontamination import (
    DecontaminationReportConfig,
    DecontaminationReportResult,
    decontamination_report,
)
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import decontaminate, suite, write_documents
from tests.steps.report.diet_data import CARDS, SECRET

WORDS = [f"word{number}" for number in range(40)]
ITEM = (
    f"<script>owned()</script></title>&amp; mail jane.doe@example.org or +49 30 1234567 today please {' '.join(WORDS)}"
)
FILLER = " ".join(f"filler{number}" for number in range(100))
AROUND = " ".join(f"around{number}" for number in range(100))
COMMON = " ".join(f"licence{number}" for number in range(13))
SOURCES = {
    "prose": [f"{ITEM} Copied.", f"{AROUND} {ITEM}", FILLER, *(f"{COMMON} {n}" for n in range(4))],
    "mail": [f"From me, {SECRET}: {ITEM}"],
}
BENCHMARKS = {"exam/<b>": [ITEM, COMMON], "other": [" ".join(WORDS)], "heldout-mail": [f"{SECRET} {FILLER}"]}


@functools.cache
def decontamination_page() -> tuple[Path, DecontaminationReportResult]:
    """Returns the page's folder and its result."""
    keep = tempfile.TemporaryDirectory(prefix="decontamination-")
    decontamination_page.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    folder = Path(keep.name)
    sources = [write_documents(folder, name, texts) for name, texts in SOURCES.items()]
    benchmarks = [suite(folder, name, texts) for name, texts in BENCHMARKS.items()]
    common = Boilerplate(documents=4, sources=1, source_documents=10**9)
    for name, thresholds in (("strict", Thresholds(item_coverage=None)), ("run", Thresholds())):
        decontaminate(folder / name, sources, benchmarks, boilerplate=common, thresholds=thresholds)
    between = CompareConfig(before=str(folder / "strict"), after=str(folder / "run"), sources=tuple(SOURCES))
    (folder / "changes").mkdir()
    compare(between, DirectoryOut(folder / "changes"))
    config = DecontaminationReportConfig(
        title="A <run> & its hits",
        contaminated=str(folder / "run"),
        comparison=str(folder / "changes"),
        cards=CARDS,
        items_shown=1,
    )
    return folder / "page", decontamination_report(config, DirectoryOut(folder / "page"))
