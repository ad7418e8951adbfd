"""Draws the review page from its values. Nothing but the values and the template goes in."""

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from steps.decontaminate.masked import pieces
from steps.report import formats

_TEMPLATES = Path(__file__).parents[1] / "report" / "templates"


def render_review(values: dict[str, Any]) -> str:
    """Returns the page of a review, given the values in its JSON twin."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**formats.FILTERS, "pieces": pieces}
    style = Markup((_TEMPLATES / "page.css").read_text("utf-8"))
    return environment.get_template("decontamination.html").render(review=values, style=style)
