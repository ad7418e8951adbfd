"""In what two outputs differ, over all that they were made from.

The steps of both ancestries are matched; of each pair that differs, it is told apart what was changed at that step (its
config, its code, or an output that differs though nothing else does) and what only follows from its inputs. The first
are the root differences. Everything is read from records.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marin_exec.identity import dependency_references, differences
from marin_exec.lineage import Located, Node, upstream
from marin_exec.records import Record
from marin_exec.source import changed_functions
from marin_exec.store import Store

_RUN_KEYS = frozenset({"experiment", "command_line", "user", "host", "backend", "git", "library_git", "packages"})
"""Parts of the provenance that say which run it was, or are compared part by part."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One step of the first ancestry, and what stands in its place in the second."""

    a: Node
    b: Node
    depth: int
    """Steps away from the outputs that are compared."""


def compare(store: Store, a: Record, b: Record) -> dict[str, Any]:
    """Returns in what two outputs and their ancestries differ, as plain values; these keys stay.

    "steps" holds the pairs that differ, root differences first and otherwise sources first; "environment" what differs
    around them, with the steps that it was so for.
    """
    nodes_a, nodes_b = _ancestors(store, a), _ancestors(store, b)
    pairs, only_a, only_b = _matched(nodes_a, nodes_b)
    rows = [_row(pair) for pair in sorted(pairs, key=lambda pair: (-pair.depth, pair.a.name))]
    differing = [row for row in rows if not row["agree"]]
    ends = _row(pairs[0])
    return {
        "a": _named(a),
        "b": _named(b),
        **{key: ends[key] for key in ("same_identity", "same_output", "fields", "functions", "results")},
        "provenance": {each["key"]: [each["a"], each["b"]] for each in _environment(pairs[:1])},
        "steps": sorted(differing, key=lambda row: not row["root"]),
        "environment": _environment(pairs),
        "agree": sorted(row["name"] for row in rows if row["agree"]),
        "only_a": [_named_node(node) for node in only_a],
        "only_b": [_named_node(node) for node in only_b],
    }


def _ancestors(store: Store, record: Record) -> list[Node]:
    """Returns the output and all that it was made from by its own inputs, nearest first; what it was linked to stays out."""
    found = upstream(store, Located(record, ""))
    inputs = defaultdict(list)
    for edge in found.edges:
        if edge.relation == "input":
            inputs[edge.child].append(edge.parent)
    nodes = {node.key: node for node in found.nodes}
    reached = {found.nodes[0].key: None}
    frontier = list(reached)
    while frontier:
        frontier = [
            key for key in dict.fromkeys(parent for child in frontier for parent in inputs[child]) if key not in reached
        ]
        reached |= dict.fromkeys(frontier)
    return [nodes[key] for key in reached]


def _matched(a: list[Node], b: list[Node]) -> tuple[list[Pair], list[Node], list[Node]]:
    """Pairs nodes: the two ends first; the same step; then by name and kind; then the only ones of a kind that are left."""
    pairs = [Pair(a=a[0], b=b[0], depth=0)]
    left_a, left_b = a[1:], b[1:]
    by: list[Callable[[Node], object]] = [
        lambda node: (node.digest, node.record.output_digest if node.record else ""),
        lambda node: node.digest,
        lambda node: (node.name, _kind(node)),
    ]
    for key in by:
        left_a, left_b = _pair_up(pairs, left_a, left_b, key)
    kinds_a, kinds_b = _grouped(left_a, _kind), _grouped(left_b, _kind)
    single = {kind for kind in kinds_a if len(kinds_a[kind]) == len(kinds_b.get(kind, [])) == 1}
    rest_a, rest_b = _pair_up(pairs, left_a, left_b, lambda node: _kind(node) if _kind(node) in single else node.key)
    return pairs, rest_a, rest_b


def _pair_up(
    pairs: list[Pair], a: list[Node], b: list[Node], key: Callable[[Node], object]
) -> tuple[list[Node], list[Node]]:
    """Adds the pairs of equal keys, in order, and returns what is left on each side."""
    waiting = _grouped(b, key)
    left, taken = [], set()
    for node in a:
        candidates = waiting.get(key(node))
        if candidates:
            other = candidates.pop(0)
            taken.add(id(other))
            pairs.append(Pair(a=node, b=other, depth=max(node.depth, other.depth)))
        else:
            left.append(node)
    return left, [node for node in b if id(node) not in taken]


def _grouped(nodes: Iterable[Node], key: Callable[[Node], object]) -> dict[object, list[Node]]:
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        groups.setdefault(key(node), []).append(node)
    return groups


def _kind(node: Node) -> str:
    return node.record.identity["kind"] if node.record else node.kind


def _row(pair: Pair) -> dict[str, Any]:
    a, b = pair.a.record, pair.b.record
    row: dict[str, Any] = {
        "name": pair.b.name,
        "kind": pair.b.kind,
        "depth": pair.depth,
        "a": _named_node(pair.a),
        "b": _named_node(pair.b),
        "same_identity": pair.a.digest == pair.b.digest,
        "same_output": a is not None and b is not None and a.output_digest == b.output_digest,
        "fields": [],
        "functions": [],
        "inputs": [],
        "results": [],
    }
    if a is not None and b is not None:
        row["inputs"] = _inputs(a, b)
        named = {each["path"] for each in row["inputs"]}
        row["fields"] = [
            {"path": each.path, "a": each.old, "b": each.new}
            for each in differences(a.identity, b.identity)
            if each.path not in named
        ]
        row["functions"] = changed_functions(_functions(a), _functions(b))
        row["results"] = _result_differences(a.result, b.result)
    inputs_equal = all(each["same_content"] for each in row["inputs"])
    row["agree"] = row["same_identity"] and row["same_output"] and not row["functions"]
    row["unexplained"] = (
        inputs_equal
        and not (row["fields"] or row["functions"] or row["same_output"])
        and a is not None
        and b is not None
    )
    row["root"] = not row["agree"] and bool(row["fields"] or row["functions"] or row["unexplained"])
    return row


def _functions(record: Record) -> Mapping[str, str]:
    return record.source["functions"] if record.source else {}


def _inputs(a: Record, b: Record) -> list[dict[str, Any]]:
    """Returns the places in the configs where both refer to a step, and the two are not the same output."""
    in_a, in_b = dependency_references(a.identity), dependency_references(b.identity)
    held_a, held_b = _held(a), _held(b)
    rows = []
    for path in in_a.keys() & in_b.keys():
        (name_a, holds_a), (name_b, holds_b) = (
            held.get(refs[path], ("(unknown)", "")) for held, refs in ((held_a, in_a), (held_b, in_b))
        )
        same_content = bool(holds_a) and holds_a == holds_b
        if in_a[path] != in_b[path] or not same_content:
            rows.append({"path": path, "a": name_a, "b": name_b, "same_content": same_content})
    return sorted(rows, key=lambda row: row["path"])


def _held(record: Record) -> dict[str, tuple[str, str]]:
    """Returns name and output digests of a record's inputs by their step's digest, milestones together."""
    held: dict[str, tuple[str, str]] = {}
    for each in record.dependencies:
        before = held.get(each.digest, ("", ""))[1]
        held[each.digest] = (each.name, f"{before} {each.output_digest}".strip())
    return held


def _environment(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """Returns what differs in the provenance of the pairs: one row for each change, with the names of its steps."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for pair in pairs:
        a, b = (_surroundings(node.record) for node in (pair.a, pair.b))
        for key in sorted(a.keys() | b.keys()) if a and b else ():
            if a.get(key) != b.get(key):
                row = {"key": key, "a": a.get(key), "b": b.get(key), "steps": []}
                rows.setdefault((key, str(row["a"]), str(row["b"])), row)["steps"].append(pair.b.name)
    return sorted(rows.values(), key=lambda row: (row["key"], -len(row["steps"])))


def _surroundings(record: Record | None) -> dict[str, Any]:
    """Returns what a record says of the environment, flat; nothing of a step that was linked, and so ran nowhere."""
    if record is None or record.link is not None or not record.provenance:
        return {}
    provenance = record.provenance
    flat = {key: value for key, value in provenance.items() if key not in _RUN_KEYS}
    for name in ("git", "library_git"):
        for key in ("commit", "diff_digest"):
            flat[f"{name}.{key}"] = (provenance.get(name) or {}).get(key)
    flat |= {f"packages.{name}": version for name, version in (provenance.get("packages") or {}).items()}
    flat["host"] = (record.resources or {}).get("host") or provenance.get("host")
    flat["backend"] = (provenance.get("backend") or {}).get("name")
    return {key: value for key, value in flat.items() if value is not None}


def _result_differences(a: Any, b: Any, path: str = "result") -> list[dict[str, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = list(dict.fromkeys([*a, *b]))
        return [row for key in keys for row in _result_differences(a.get(key), b.get(key), f"{path}.{key}")]
    return [] if a == b else [{"path": path, "a": a, "b": b}]


def _named(record: Record) -> dict[str, Any]:
    link = record.link.phrase if record.link else None
    return {"name": record.name, "digest": record.digest, "attempt": record.attempt, "link": link}


def _named_node(node: Node) -> dict[str, Any]:
    if node.record is None:
        return {"name": node.name, "digest": node.digest, "attempt": None, "link": None}
    return _named(node.record)
