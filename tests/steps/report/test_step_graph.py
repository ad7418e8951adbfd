"""Layout of the graph of steps, against plain reachability."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.report.figure_steps import MAX_DRAWN_NODES, step_graph
from steps.report.graph import Sizes, group_siblings, lay_out, longest_path_layers, without_implied

SIZES = Sizes(node_width=100.0, node_height=40.0, column_gap=10.0, layer_gap=20.0, lane_width=6.0, most_in_layer=4)


@st.composite
def graphs(draw) -> tuple[list[str], list[tuple[str, str]]]:
    count = draw(st.integers(1, 14))
    nodes = [f"n{i}" for i in range(count)]
    pairs = list(itertools.combinations(nodes, 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=40)) if pairs else []
    return draw(st.permutations(nodes)), edges


def reachable(nodes, edges) -> set[tuple[str, str]]:
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in found if b == c} - found
        if not more:
            return found
        found |= more


@settings(max_examples=60)
@given(graphs())
def test_reduced_edges_reach_the_same_and_none_can_go(graph):
    nodes, edges = graph
    kept = without_implied(nodes, edges)
    assert set(kept) <= set(edges) and reachable(nodes, kept) == reachable(nodes, edges)
    for edge in kept:
        assert edge not in reachable(nodes, [other for other in kept if other != edge])


@settings(max_examples=60)
@given(graphs())
def test_layout_runs_down_and_nothing_overlaps(graph):
    nodes, edges = graph
    kept = without_implied(nodes, edges)
    layout = lay_out(nodes, kept, SIZES)
    assert set(layout.places) == set(nodes) and set(layout.routes) == set(kept)
    for parent, child in kept:
        heights = [y for _, y in layout.routes[parent, child]]
        assert heights == sorted(set(heights)) and len(heights) >= 2
        assert layout.routes[parent, child][0] == layout.places[parent]
    for (xa, ya), (xb, yb) in itertools.combinations(layout.places.values(), 2):
        assert ya != yb or abs(xa - xb) >= SIZES.node_width + SIZES.column_gap - 1e-6
    for x, y in layout.places.values():
        assert SIZES.node_width / 2 - 1e-6 <= x <= layout.width - SIZES.node_width / 2 + 1e-6
        assert SIZES.node_height / 2 <= y <= layout.height - SIZES.node_height / 2 + 1e-6


@settings(max_examples=60)
@given(graphs(), st.integers(1, 4))
def test_grouping_alike_siblings_never_makes_a_cycle(graph, smallest):
    nodes, edges = graph
    groups = group_siblings(dict.fromkeys(nodes, ("kind", "family")), edges, smallest)
    grouped = [(groups[a], groups[b]) for a, b in edges]
    assert all(a != b for a, b in grouped)
    longest_path_layers(sorted(set(groups.values())), set(grouped))  # raises for a cycle


def test_groups_take_one_kind_and_family_from_five_on():
    nodes = {f"a{i}": ("normalize", "documents") for i in range(5)} | {f"b{i}": ("train", "ladder") for i in range(4)}
    nodes |= {f"c{i}": ("embed", "") for i in range(6)}
    groups = group_siblings(nodes, [], 5)
    assert {groups[f"a{i}"] for i in range(5)} == {"a0"}
    assert all(groups[key] == key for key in nodes if key[0] in "bc")


def test_cycle_is_refused_by_name():
    with pytest.raises(ValueError, match=r"steps form a cycle: \['a', 'b'\]"):
        longest_path_layers(["a", "b"], [("a", "b"), ("b", "a")])


def provenance(count: int) -> dict:
    steps = [
        {"key": f"{n:04d}/a1", "name": f"step-{n}", "kind": "k", "digest": f"{n:064x}", "status": "reused", "seconds": 1.0,
         "counts": {}, "is_report": False}
        for n in range(count)
    ]  # fmt: skip
    edges = [{"parent": a["key"], "child": b["key"], "relation": "input"} for a, b in itertools.pairwise(steps)]
    return {"steps": steps, "edges": edges}


def test_too_many_nodes_are_left_to_the_table():
    assert step_graph(provenance(MAX_DRAWN_NODES))["svg"] is not None
    refused = step_graph(provenance(MAX_DRAWN_NODES + 1))
    assert refused["svg"] is None and refused["steps"] == MAX_DRAWN_NODES + 1


def test_step_reached_by_input_and_order_is_drawn_as_input():
    made = provenance(2)
    made["edges"].append({**made["edges"][0], "relation": "after"})
    assert "edge waits" not in step_graph(made)["svg"]
    made["edges"] = made["edges"][1:]
    assert "edge waits" in step_graph(made)["svg"]
