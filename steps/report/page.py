"""Renders a report's values as one self-contained HTML page. Nothing but the values and the templates goes in."""

import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from steps.report import formats
from steps.report.figure_steps import status_words, step_graph
from steps.report.figures import forecast_curve, ladder_curves, residuals, scaling, set_curves, training_charts
from steps.report.gather_data import NUM_BUCKETS
from steps.report.heat import heat_tables

_CELL = re.compile(r"c(\d+)q(\d+)")
_TEMPLATES = Path(__file__).parent / "templates"


def render_page(report: dict[str, Any]) -> str:
    """Returns the page of a report, given the values in its JSON twin."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**formats.FILTERS, "status": status_words}
    runs = report["training"]["runs"]
    data = report["data"]
    hero = next(run for run in runs if run["role"] == "hero")
    sources = [each["source"] for each in data["funnel"]["by_source"]]
    return environment.get_template("page.html").render(
        report=report,
        style=Markup((_TEMPLATES / "page.css").read_text("utf-8")),
        script=Markup((_TEMPLATES / "page.js").read_text("utf-8")),
        graph=step_graph(report["provenance"]),
        heat=heat_tables(data["cube"], data["topics"], sources),
        num_buckets=NUM_BUCKETS,
        charts={
            "ladder_progress": ladder_curves(runs, "progress"),
            "ladder_tokens": ladder_curves(runs, "tokens"),
            "forecast": forecast_curve(report["forecast"]),
            "residuals": residuals(report["forecast"]),
            "scaling": scaling(report["forecast"]),
            "sets": set_curves(hero),
            **training_charts(runs),
        },
        hero=hero,
        rungs=[run for run in runs if run["role"] == "rung"],
        cell_titles=cell_titles(data["mixture"]["components"], data["topics"]),
        sets=sorted(runs[-1]["evaluations"][-1]["sets"]),
    )


def cell_titles(components: list[dict[str, Any]], topics: list[dict[str, Any]]) -> dict[str, str]:
    """Returns what each mixture component is made of in words, by its name."""
    names = {topic["topic"]: topic["name"] for topic in topics}
    titles = {}
    for each in components:
        found = _CELL.fullmatch(each["name"])
        titles[each["name"]] = (
            f"{len(each['cells'])} cells"
            if found is None
            else (f"{names.get(int(found[1]), 'topic ' + found[1])}, quality {found[2]}")
        )
    return titles
