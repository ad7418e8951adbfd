"""Line charts as inline SVG: readable without scripts, with labels at the lines and values in tooltips.

Colours are CSS classes, so that one drawing serves both themes. Each series carries its values as data for the page's
read-out script, which only adds to what is there.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from steps.report.elements import element, join

WIDTH, HEIGHT = 600.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 68.0, 118.0, 14.0, 44.0
_LABEL_PIXELS = 15.0
_CHARACTER_PIXELS = 7.0

Format = Callable[[float], str]
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line, set of points, or band."""

    name: str
    style: str
    """CSS class: hero, rung-0 ... rung-3, forecast, quiet."""
    points: Sequence[Point]
    band: Sequence[tuple[float, float, float]] = ()
    """(x, low, high)."""
    line: bool = True
    marks: bool = False
    hollow: frozenset[int] = frozenset()
    """Points drawn as hollow diamonds: those outside a range, so that shape says it too."""
    label: str | None = None
    """At the end of the line; None: no label."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis."""

    label: str
    """With the unit."""
    format: Format
    """Of tick labels and read-outs."""
    log: bool = False
    low: float | None = None
    """None: from the data."""
    high: float | None = None


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Returns round values (1, 2, 2.5 or 5 times a power of ten apart) from low to high, at most `most` + 1."""
    span = high - low
    if span <= 0:
        return [low]
    power = 10 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (power * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Returns 1, 2 and 5 times powers of ten from low to high, only the powers over more than two decades; if that is fewer
    than two, linear ticks.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if high / low > 100 else (1, 2, 5)
    ticks = [f * 10.0**d for d in decades for f in factors if low * (1 - 1e-9) <= f * 10.0**d <= high * (1 + 1e-9)]
    return ticks if len(ticks) > 1 else linear_ticks(low, high, 4)


def line_chart(
    series: Sequence[Series], *, title: str, x: Axis, y: Axis, references: Sequence[tuple[float, str]] = ()
) -> Markup:
    """Returns a chart as one `<svg>`.

    Args:
        series: drawn in order, the last on top.
        title: read out, and shown as the drawing's tooltip.
        x: the horizontal axis.
        y: the vertical axis.
        references: (y, label) of horizontal lines to compare with; the label may be "".
    """
    x_scale = _scale([p[0] for each in series for p in (*each.points, *each.band)], x, (LEFT, WIDTH - RIGHT), 0.0)
    heights = [p[1] for each in series for p in each.points]
    heights += [v for each in series for point in each.band for v in point[1:]] + [value for value, _ in references]
    y_scale = _scale(heights, y, (HEIGHT - BOTTOM, TOP), 0.06)
    return element(
        "svg",
        element("title", title),
        _grid(x_scale, y_scale, x, y),
        join(_reference(value, label, y_scale) for value, label in references),
        join(_drawn(each, x_scale, y_scale, x, y) for each in series),
        _labels(series, x_scale, y_scale),
        element("line", class_="cross", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM, visibility="hidden"),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        class_="chart",
        role="img",
        aria_label=title,
    )


def _scale(values: Sequence[float], axis: Axis, ends: tuple[float, float], margin: float) -> _Scale:
    low = axis.low if axis.low is not None else min(values)
    high = axis.high if axis.high is not None else max(values)
    if high <= low:
        low, high = low - 0.5 * abs(low or 1), low + 0.5 * abs(low or 1)
    pad = margin * (high - low)
    low = low if axis.low is not None or axis.log else low - pad
    high = high if axis.high is not None or axis.log else high + pad
    return _Scale(low, high, *ends, axis.log)


def _grid(x_scale: _Scale, y_scale: _Scale, x: Axis, y: Axis) -> Markup:
    parts = []
    base = HEIGHT - BOTTOM
    for value in _ticks(y_scale):
        at = y_scale(value)
        parts.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at))
        parts.append(element("text", y.format(value), class_="tick", x=LEFT - 7, y=at + 4, text_anchor="end"))
    free_from = 0.0
    for value in _ticks(x_scale):
        at, text = x_scale(value), x.format(value)
        half = len(text) * _CHARACTER_PIXELS / 2
        parts.append(element("line", class_="grid", x1=at, x2=at, y1=base, y2=base + 4))
        if at - half >= free_from:  # a label that would run into the one before is left out; its tick stays
            parts.append(element("text", text, class_="tick", x=at, y=base + 17, text_anchor="middle"))
            free_from = at + half + _CHARACTER_PIXELS
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(element("text", x.label, class_="axis", x=middle, y=HEIGHT - 6, text_anchor="middle"))
    turned = f"translate(13 {(TOP + base) / 2:g}) rotate(-90)"
    parts.append(element("text", y.label, class_="axis", transform=turned, text_anchor="middle"))
    return element("g", join(parts), aria_hidden="true")


def _ticks(scale: _Scale) -> list[float]:
    return log_ticks(scale.low, scale.high) if scale.log else linear_ticks(scale.low, scale.high)


def _reference(value: float, label: str, y_scale: _Scale) -> Markup:
    at = y_scale(value)
    return element(
        "g",
        element("line", class_="reference", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at),
        element("text", label, class_="reference-label", x=LEFT + 4, y=at - 5) if label else None,
    )


def _drawn(series: Series, x_scale: _Scale, y_scale: _Scale, x: Axis, y: Axis) -> Markup:
    places = [(x_scale(px), y_scale(py)) for px, py in series.points]
    parts = []
    if series.band:
        upper = [(x_scale(px), y_scale(high)) for px, _, high in series.band]
        lower = [(x_scale(px), y_scale(low)) for px, low, _ in reversed(series.band)]
        parts.append(element("polygon", class_="band", points=_points([*upper, *lower])))
    if series.line and len(places) > 1:
        parts.append(element("polyline", class_="line", points=_points(places)))
    for index, ((px, py), place) in enumerate(zip(series.points, places, strict=True) if series.marks else ()):
        parts.append(_mark(place, index in series.hollow, f"{series.name}, {x.format(px)}: {y.format(py)}"))
    readings = [
        [round(place[0], 1), round(place[1], 1), x.format(px), y.format(py)]
        for (px, py), place in zip(series.points, places, strict=True)
    ]
    data = json.dumps({"name": series.name, "points": readings}, separators=(",", ":"), ensure_ascii=False)
    return element("g", join(parts), class_=f"series {series.style}", data_series=data)


def _mark(place: Point, hollow: bool, title: str) -> Markup:
    at_x, at_y = place
    if hollow:
        corners = [(at_x, at_y - 6), (at_x + 6, at_y), (at_x, at_y + 6), (at_x - 6, at_y)]
        return element(
            "polygon", element("title", f"{title} (outside the range)"), class_="hollow", points=_points(corners)
        )
    return element("circle", element("title", title), class_="mark", cx=at_x, cy=at_y, r=3.4)


def _points(places: Sequence[Point]) -> str:
    return " ".join(f"{px:.1f},{py:.1f}" for px, py in places)


def _labels(series: Sequence[Series], x_scale: _Scale, y_scale: _Scale) -> Markup:
    """Names at the ends of the lines, pushed apart where lines end close together."""
    ends = sorted(
        ((y_scale(each.points[-1][1]), x_scale(each.points[-1][0]), each) for each in series if each.label),
        key=lambda end: end[:2],
    )
    at: list[float] = []
    for wanted, _, _ in ends:
        at.append(max(wanted, at[-1] + _LABEL_PIXELS) if at else wanted)
    over = max(0.0, at[-1] - (HEIGHT - BOTTOM)) if at else 0.0
    return join(
        element("text", each.label, class_=f"label {each.style}", x=end_x + 8, y=place - over + 4)
        for (_, end_x, each), place in zip(ends, at, strict=True)
    )
