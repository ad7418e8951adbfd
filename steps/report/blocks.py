"""What a page of a data stage is made of: sections of blocks, which one template draws.

A step gathers plain values, which are the page's JSON twin, and lays them out in blocks: so no page has markup of its own.
"""

from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from steps.report.elements import element
from steps.report.side_by_side import Segments

MOST_ROWS = 500
"""Rows of a table on a page; all are in report.json, and the page says so."""


@dataclass(frozen=True)
class Facts:
    """Figures at a glance."""

    rows: list[tuple[str, str, str]]
    """(name, value as written, note or "")."""
    block: str = "facts"


@dataclass(frozen=True)
class Column:
    label: str
    format: str = "text"
    """"text", "figure" (text too, on the right, as figures are), or the name of a filter in `formats`."""


@dataclass(frozen=True)
class Table:
    caption: str
    columns: list[Column]
    rows: list[list[Any]]
    total: list[Any] | None = None
    shades: list[list[int]] | None = None
    """0 to 8 for each cell of `rows`: background by size."""
    block: str = "table"
    most_rows: int = MOST_ROWS


@dataclass(frozen=True)
class Views:
    """Two tables of the same counts, with a switch between their row axes."""

    name: str
    """Of the switch, unique on the page."""
    labels: tuple[str, str]
    tables: tuple[Table, Table]
    block: str = "views"


@dataclass(frozen=True)
class Chart:
    title: str
    drawing: Markup
    caption: str
    block: str = "chart"


@dataclass(frozen=True)
class Passage:
    """A text, or why there is none."""

    heading: str
    where: str
    """Source, id, licence: what is known of it."""
    segments: Segments
    withheld: str = ""
    window: str = ""
    """Which part of the text is shown, if not all."""


@dataclass(frozen=True)
class Sample:
    """One passage, or two side by side."""

    why: str
    tags: list[str]
    passages: list[Passage]


@dataclass(frozen=True)
class Samples:
    samples: list[Sample]
    shown_of: str
    """E.g. "partial, 6 of 120"; "" where all are shown."""
    title: str = ""
    """A heading below the section's, which `id` is the place of; `link` leads there."""
    id: str = ""
    block: str = "samples"


@dataclass(frozen=True)
class Words:
    """Paragraphs."""

    texts: list[str]
    block: str = "words"


@dataclass(frozen=True)
class Search:
    """A field that looks up a document's fate by its id in side files."""

    documents: int
    block: str = "search"


Block = Facts | Table | Views | Chart | Samples | Words | Search


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    lead: str
    blocks: list[Block] = field(default_factory=list)


def link(text: str, id: str) -> Markup:
    """Returns a link to the section or the samples of that id, to stand in a table."""
    return element("a", text, href=f"#{id}")


def shown_of(shown: int, total: int, what: str) -> str:
    """Returns "partial, n of N ..." where not all is shown."""
    return f"partial, {shown:,} of {total:,} {what}" if shown < total else ""


def window(passage: dict[str, Any]) -> str:
    """Returns which part of a text a passage of `Shower.passage` is."""
    first, after, total = passage["first"], passage["after"], passage["characters"]
    return "" if first == 0 and after >= total else f"characters {first:,} to {after:,} of {total:,}"


def shades(rows: list[list[Any]], columns: range) -> list[list[int]]:
    """Returns shades by the square root of the number in these columns, 0 elsewhere."""
    from steps.report.heat import shade

    most = max((row[c] or 0 for row in rows for c in columns), default=0)
    return [[shade(row[c] or 0, most) if c in columns else 0 for c in range(len(row))] for row in rows]
