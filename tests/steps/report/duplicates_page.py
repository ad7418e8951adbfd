"""The page of a real run of dedup/fuzzy over hostile text, made once a process for the tests that look at it."""

import functools
import json
import tempfile
from pathlib import Path

from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import NamedInput
from steps.report.duplicates import DuplicatesReportConfig, duplicates_report
from tests.directory_out import DirectoryOut
from tests.steps.report.diet_data import CARDS, SOURCES, diet_inputs


@functools.cache
def duplicates_page() -> tuple[Path, dict, int]:
    """Returns the page's folder, its twin, and how many documents dedup/fuzzy says it removed."""
    keep = tempfile.TemporaryDirectory(prefix="duplicates-")
    duplicates_page.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    folder, documents = Path(keep.name), diet_inputs()[0] / "documents"
    sources = tuple(NamedInput(name=name, path=str(documents / name)) for name in SOURCES)
    exact_duplicates(ExactConfig(sources=sources), DirectoryOut(folder / "exact"))
    config = FuzzyConfig(sources=sources, exact=str(folder / "exact"), containment=0.6, shingle_words=1, rows=4)
    removed = fuzzy_duplicates(config, DirectoryOut(folder / "fuzzy")).removed
    duplicates_report(DuplicatesReportConfig(fuzzy=str(folder / "fuzzy"), cards=CARDS), DirectoryOut(folder / "page"))
    return folder / "page", json.loads((folder / "page" / "report.json").read_text()), removed
