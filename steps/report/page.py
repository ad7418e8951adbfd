"""Renders a report's values as one self-contained HTML page. Nothing but the values and the templates goes in."""

from pathlib import Path
from typing import Any

import jinja2

from steps.report import formats
from steps.report.figure_steps import status_words, step_graph
from steps.report.figures import forecast_curve, ladder_curves, residuals, scaling, training_charts
from steps.report.gather_data import NUM_BUCKETS
from steps.report.heat import heat_tables

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
    environment.globals["include_raw"] = lambda name: jinja2.utils.markupsafe.Markup((_TEMPLATES / name).read_text("utf-8"))
    runs = report["training"]["runs"]
    data = report["data"]
    sources = [each["source"] for each in data["funnel"]["by_source"]]
    return environment.get_template("page.html").render(
        report=report,
        graph=step_graph(report["provenance"]),
        heat=heat_tables(data["cube"], data["topics"], sources),
        num_buckets=NUM_BUCKETS,
        charts={
            "ladder_progress": ladder_curves(runs, "progress"),
            "ladder_tokens": ladder_curves(runs, "tokens"),
            "forecast": forecast_curve(report["forecast"]),
            "residuals": residuals(report["forecast"]),
            "scaling": scaling(report["forecast"]),
            **training_charts(runs),
        },
        hero=next(run for run in runs if run["role"] == "hero"),
        rungs=[run for run in runs if run["role"] == "rung"],
        sets=sorted(runs[-1]["evaluations"][-1]["sets"]),
    )
