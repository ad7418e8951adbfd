"""The page of quality/heuristics over hostile text, made once a process for the tests that look at it."""

import functools
import tempfile
from pathlib import Path

import pyarrow as pa

from steps.documents import DOCUMENT_SCHEMA, NamedInput, document_id, write_table
from steps.heuristics.judge import HeuristicsConfig, judge_documents
from steps.report.filters import FiltersReportConfig, filters_report
from tests.directory_out import DirectoryOut
from tests.steps.report.diet_data import CARDS, SECRET

LANGUAGES = ["en", "de"]


@functools.cache
def filters_page() -> tuple[Path, dict]:
    """Returns the page's folder, and the result of quality/heuristics."""
    keep = tempfile.TemporaryDirectory(prefix="filters-")
    filters_page.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    folder = Path(keep.name)
    for source in ("prose", "mail"):
        texts = [
            f"{source} {n} <script>owned()</script> </script> {SECRET if source == 'mail' else ''}" for n in range(30)
        ]
        rows = [
            {"id": document_id(text), "text": text, "source_id": f"<b>{n}", "metadata": "{}"}
            for n, text in enumerate(texts)
        ]
        rows.sort(key=lambda row: row["id"])
        paths = [folder / name / source / "part-00000.parquet" for name in ("documents", "languages")]
        for path in paths:
            path.parent.mkdir(parents=True)
        write_table(str(paths[0]), pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA))
        said = [{"id": row["id"], "language": LANGUAGES[n % 2]} for n, row in enumerate(rows)]
        write_table(str(paths[1]), pa.Table.from_pylist(said))
    sources = tuple(NamedInput(name=name, path=str(folder / "documents" / name)) for name in ("prose", "mail"))
    config = HeuristicsConfig(sources=sources, preset_by_source={})
    judged = judge_documents(config, DirectoryOut(folder / "rules"))
    given = {"heuristics": str(folder / "rules"), "languages": str(folder / "languages"), "cards": CARDS}
    filters_report(FiltersReportConfig(**given, samples_per_rule=20), DirectoryOut(folder / "page"))
    return folder / "page", vars(judged)
