"""Writes a page of a data stage: `index.html`, self-contained, and `report.json`, the values that it is drawn from.

What differs between equal runs (commits, times, run ids) is under `provenance` and no part of the output's digest.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from marin_exec import Out
from marin_exec.errors import StoreError
from marin_exec.lineage import record_at
from steps.files import write_bytes
from steps.report import formats
from steps.report.blocks import Section

_TEMPLATES = Path(__file__).parent / "templates"


def write_stage_page(
    out: Out, title: str, lead: str, values: dict[str, Any], sections: list[Section], inputs: Iterable[str]
) -> int:
    """Writes both files; returns the page's size in bytes.

    Args:
        out: of the step.
        title: heading, and name of the window.
        lead: what the page says in a sentence or two.
        values: all figures and passages on the page, as plain JSON.
        sections: the same, laid out.
        inputs: paths of the outputs that the page is made from, for its footer.
    """
    made = provenance(inputs)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**formats.FILTERS, "text": _as_it_is, "figure": _as_it_is}
    style = "".join((_TEMPLATES / name).read_text("utf-8") for name in ("page.css", "stage.css"))
    page = environment.get_template("stage.html").render(
        title=title,
        lead=lead,
        sections=sections,
        provenance=made,
        style=Markup(style),
        script=Markup((_TEMPLATES / "stage.js").read_text("utf-8")),
        filters=environment.filters,
    )
    page_bytes = page.encode("utf-8")
    twin = {"title": title, "lead": lead, **values, "provenance": made}
    write_bytes(out.file("report.json"), json.dumps(twin, indent=1, allow_nan=False).encode())
    write_bytes(out.file("index.html"), page_bytes)
    return len(page_bytes)


def provenance(inputs: Iterable[str]) -> list[dict[str, Any]]:
    """Returns the step, digest and code version behind each path; outside a store the path alone."""
    rows = {}
    for path in inputs:
        try:
            record = record_at(path)
        except StoreError:  # no store keeps a record of it; the page shows that nothing is known
            rows[path] = {
                "step": path.rstrip("/").rsplit("/", 1)[-1],
                "kind": "",
                "digest": "",
                "commit": "",
                "dirty": False,
            }
            continue
        git = (record.provenance or {}).get("git") or {}
        rows[record.digest] = {
            "step": record.name,
            "kind": record.kind,
            "digest": record.digest[:16],
            "commit": (git.get("commit") or "")[:10],
            "dirty": bool(git.get("dirty")),
        }
    return list(rows.values())


def _as_it_is(value: Any) -> Any:
    return formats.NONE if value is None else value
