"""The graph of steps as SVG: alike siblings as one stack, reuse marked by words and pattern, details in tooltips."""

from collections import Counter
from typing import Any

from markupsafe import Markup

from steps.report import formats
from steps.report.elements import element, join
from steps.report.gather_steps import MADE, REUSED
from steps.report.graph import Sizes, group_siblings, lay_out, without_implied

SMALLEST_GROUP = 5
MAX_DRAWN_NODES = 150
"""Above this the page shows the table only, and says so."""
_SIZES = Sizes(node_width=180.0, node_height=50.0, column_gap=14.0, layer_gap=28.0, lane_width=8.0, most_in_layer=6)
_MARGIN = 6.0


def step_graph(provenance: dict[str, Any]) -> dict[str, Any]:
    """Returns the drawing and what it leaves out: {"svg", "nodes", "steps", "drawn_edges", "edges"}.

    `svg` is None where there is nothing to draw, or too much.
    """
    steps = {step["key"]: step for step in provenance["steps"]}
    edges = [(each["parent"], each["child"]) for each in provenance["edges"]]
    about = {"steps": len(steps), "edges": len(set(edges)), "svg": None, "nodes": 0, "drawn_edges": 0}
    if not steps:
        return about
    kinds = {key: (step["kind"], step["name"].rpartition("/")[0]) for key, step in steps.items()}
    groups = group_siblings(kinds, edges, SMALLEST_GROUP)
    members: dict[str, list[dict[str, Any]]] = {}
    for key in steps:
        members.setdefault(groups[key], []).append(steps[key])
    if len(members) > MAX_DRAWN_NODES:
        return about
    grouped = [(groups[a], groups[b]) for a, b in edges if groups[a] != groups[b]]
    drawn = without_implied(list(members), grouped)
    waits = {(groups[e["parent"]], groups[e["child"]]) for e in provenance["edges"] if e["relation"] == "after"}
    waits -= {(groups[e["parent"]], groups[e["child"]]) for e in provenance["edges"] if e["relation"] == "input"}
    layout = lay_out(list(members), drawn, _SIZES)
    svg = element(
        "svg",
        element("title", f"Graph of {len(steps)} steps"),
        _patterns(),
        element(
            "g",
            join(_edge(route, edge in waits, edge) for edge, route in layout.routes.items()),
            join(_node(key, members[key], layout.places[key]) for key in members),
            transform=f"translate({_MARGIN:g} {_MARGIN:g})",
        ),
        viewBox=f"0 0 {layout.width + 2 * _MARGIN:.0f} {layout.height + 2 * _MARGIN:.0f}",
        style=f"width: {layout.width + 2 * _MARGIN:.0f}px",
        class_="steps",
        role="img",
        aria_label="Graph of steps; the table below it holds the same",
    )
    return {**about, "svg": svg, "nodes": len(members), "drawn_edges": len(drawn)}


def _patterns() -> Markup:
    stripe = element("path", d="M-1,1 l2,-2 M0,8 l8,-8 M7,9 l2,-2", class_="stripe")
    head = element("path", d="M0,0 L7,3.5 L0,7 z", class_="arrow")
    return element(
        "defs",
        element("pattern", stripe, id="reused-pattern", width=8, height=8, patternUnits="userSpaceOnUse"),
        element("marker", head, id="arrow", markerWidth=7, markerHeight=7, refX=6, refY=3.5, orient="auto"),
    )


def _edge(route: list[tuple[float, float]], waits: bool, edge: tuple[str, str]) -> Markup:
    half = _SIZES.node_height / 2
    x, y = route[0]
    path, y = f"M{x:.1f},{y + half:.1f}", y + half
    for to_x, to_y in route[1:]:  # curved between layers, straight down where it passes one
        middle, end = (y + to_y - half) / 2, to_y - half
        path += f" C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{end:.1f}"
        path += f" V{to_y + half:.1f}" if (to_x, to_y) != route[-1] else ""
        x, y = to_x, to_y + half
    return element(
        "path", d=path, class_="edge waits" if waits else "edge", marker_end="url(#arrow)",
        data_parent=edge[0][:24], data_child=edge[1][:24],
    )  # fmt: skip


def _node(key: str, members: list[dict[str, Any]], centre: tuple[float, float]) -> Markup:
    statuses = Counter(step["status"] for step in members)
    (status, _), *others = statuses.most_common()
    first = members[0]
    name = (
        f"{first['name'].rpartition('/')[0]}/ \N{MULTIPLICATION SIGN}{len(members)}"
        if len(members) > 1
        else first["name"]
    )
    left, top = centre[0] - _SIZES.node_width / 2, centre[1] - _SIZES.node_height / 2
    box = {"width": _SIZES.node_width, "height": _SIZES.node_height, "rx": 7}
    style = {MADE: "made", REUSED: "reused"}.get(status, "unknown")
    words = (
        status_words(status) if not others else ", ".join(f"{n} {status_words(s)}" for s, n in statuses.most_common())
    )
    taken = [step["seconds"] for step in members if step["seconds"] is not None]
    if taken:
        words += f" · {formats.seconds(sum(taken))}"
    stack = [
        element("rect", class_="stack", x=left + shift, y=top + shift, **box)
        for shift in (5.0, 2.5)
        if len(members) > 1
    ]
    return element(
        "g",
        element("title", "\n".join(map(_tooltip, members))),
        join(stack),
        element("rect", class_="box", x=left, y=top, **box),
        element("rect", class_="pattern", x=left, y=top, **box) if style == "reused" else None,
        element("text", _cut(name, 22), class_="name", x=left + 10, y=top + 16),
        element("text", _cut(first["kind"], 28), class_="kind", x=left + 10, y=top + 29),
        element("text", words, class_="status", x=left + 10, y=top + 43),
        class_=f"node {style}{' own' if first.get('is_report') else ''}",
        data_key=key[:24],
    )


def status_words(status: str) -> str:
    """Returns a status as a sign and words."""
    sign = {MADE: "\N{BLACK CIRCLE}", REUSED: "\N{ANTICLOCKWISE OPEN CIRCLE ARROW}"}.get(status, "?")
    return f"{sign} {'made now' if status == MADE else status}"


def _tooltip(step: dict[str, Any]) -> str:
    parts = [f"{step['name']} [{step['kind']}] {step['digest'][:16]}", step["status"]]
    if step["seconds"] is not None:
        parts.append(formats.seconds(step["seconds"]))
    parts += [f"{name} {formats.short(value)}" for name, value in step["counts"].items()]
    return ", ".join(parts)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "\N{HORIZONTAL ELLIPSIS}"
