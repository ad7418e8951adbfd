"""Histograms as inline SVG, readable without scripts, with a table's figures in tooltips."""

from collections.abc import Sequence

from markupsafe import Markup

from steps.report import formats
from steps.report.elements import element, join

_WIDTH, _HEIGHT, _BASE = 420.0, 120.0, 96.0


def histogram(
    counts: Sequence[int], low: float, high: float, *, title: str, limits: Sequence[tuple[float, str]] = ()
) -> Markup:
    """Returns bars of equal width from `low` to `high`, their heights by the square root of the counts.

    Args:
        counts: of each bin.
        low: where the first bin begins.
        high: where the last one ends.
        title: for those who don't see it.
        limits: (value, name) of lines across.
    """
    most = max(max(counts, default=0), 1)
    width = _WIDTH / max(1, len(counts))
    step = (high - low) / max(1, len(counts))
    parts = []
    for index, count in enumerate(counts):
        tall = (_BASE - 10) * (count / most) ** 0.5
        label = f"{formats.short(low + index * step)} to {formats.short(low + (index + 1) * step)}: {count:,}"
        bar = element(
            "rect", element("title", label), x=index * width, y=_BASE - tall, width=max(width - 1, 0.5), height=tall
        )
        parts.append(bar)
    for value, name in limits:
        at = (min(max(value, low), high) - low) / ((high - low) or 1) * _WIDTH
        parts.append(element("line", element("title", name), class_="limit", x1=at, x2=at, y1=0, y2=_BASE))
        anchor = "end" if at > _WIDTH / 2 else "start"
        parts.append(element("text", name, x=at + (-4 if anchor == "end" else 4), y=10, text_anchor=anchor))
    parts.append(element("text", formats.short(low), x=0, y=_HEIGHT - 8))
    parts.append(element("text", formats.short(high), x=_WIDTH, y=_HEIGHT - 8, text_anchor="end"))
    return element(
        "svg", join(parts), class_="histogram", viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}", role="img", aria_label=title
    )
