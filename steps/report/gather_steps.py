"""How everything on the page was made: steps, what was reused, and the lineage of the final checkpoint.

It differs between equal runs (run ids, times, attempts), so it stands apart from the report's content and is not in its
digest.
"""

from collections.abc import Iterable
from typing import Any

from marin_exec.errors import StoreError
from marin_exec.lineage import Edge, Lineage, Located, Node, locate, upstream
from marin_exec.store import Store

REUSED, MADE, UNKNOWN = "reused", "made in this run", "unknown"
_MAX_COUNTS = 5
_SHOWN_PACKAGES = ("jax", "marin-levanter", "ray", "numpy", "pyarrow", "tokenizers", "faiss-cpu", "scikit-learn")


def gather_provenance(out_path: str, step_name: str, inputs: Iterable[str], checkpoint: str) -> dict[str, Any]:
    """Returns steps, edges and the checkpoint's lineage, from the records behind the inputs.

    Args:
        out_path: the report's own output directory; its store and its run are found from it.
        step_name: the report's own.
        inputs: paths of outputs that the report is made from.
        checkpoint: path of the checkpoint whose lineage is shown.

    Returns:
        {"known": False} outside a store.
    """
    try:
        store = Store.containing(out_path)
        own = store.locate(out_path)
    except StoreError:
        return {"known": False, "run_id": None, "steps": [], "edges": [], "lineage": [], "versions": {}}
    run_id = _run_of(store, own.digest16, own.attempt)
    found = [locate(store, path) for path in dict.fromkeys(inputs)]
    nodes, edges = _all_upstream(store, found)
    key = f"{own.digest16}/{(own.attempt_path or '').rsplit('/', 1)[-1]}"
    steps = [_step(node, run_id) for node in nodes.values()]
    steps.append(_own_step(key, step_name, own.digest16, run_id))
    pairs = [{"parent": edge.parent, "child": edge.child, "relation": edge.relation} for edge in edges]
    pairs += [{"parent": _key(each), "child": key, "relation": "input"} for each in found]
    lineage = upstream(store, locate(store, checkpoint))
    return {
        "known": True,
        "run_id": run_id,
        "steps": steps,
        "edges": [dict(pair) for pair in sorted({tuple(sorted(pair.items())) for pair in pairs})],
        "checkpoint": checkpoint.removeprefix(store.prefix).lstrip("/"),
        "lineage": _lineage_rows(lineage, run_id),
        "versions": _versions(lineage),
    }


def _run_of(store: Store, digest16: str, attempt: int | None) -> str | None:
    """The id of the run that this attempt belongs to, from the first line of its own log: it has no record yet."""
    if attempt is None:
        return None
    for event in store.events(store.full_digest(digest16), attempt):
        if event["type"] == "started":
            return event["run_id"]
    return None


def _all_upstream(store: Store, starts: list[Located]) -> tuple[dict[str, Node], dict[Edge, None]]:
    nodes: dict[str, Node] = {}
    edges: dict[Edge, None] = {}
    for start in starts:
        if _key(start) in nodes:
            continue  # reached from an earlier one, with all that is above it
        walked = upstream(store, start)
        nodes |= {node.key: node for node in walked.nodes if node.key not in nodes}
        edges |= dict.fromkeys(walked.edges)
    return nodes, edges


def _key(located: Located) -> str:
    return f"{located.record.digest}/{located.record.output_path.rsplit('/', 1)[-1]}"


def _own_step(key: str, name: str, digest16: str, run_id: str | None) -> dict[str, Any]:
    return {
        "key": key,
        "name": name,
        "kind": "report/experiment",
        "digest": digest16,
        "status": MADE if run_id else UNKNOWN,
        "run_id": run_id,
        "seconds": None,
        "commit": None,
        "dirty": None,
        "counts": {},
        "is_report": True,
    }


def _step(node: Node, run_id: str | None) -> dict[str, Any]:
    record = node.record
    git = ((record.provenance or {}).get("git") or {}) if record else {}
    status = UNKNOWN if record is None or run_id is None else MADE if record.run_id == run_id else REUSED
    return {
        "key": node.key,
        "name": node.name,
        "kind": node.kind,
        "digest": node.digest,
        "status": status,
        "run_id": record.run_id if record else None,
        "seconds": record.seconds if record else None,
        "commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "counts": counts_of(record.result) if record else {},
        "is_report": False,
    }


def counts_of(result: Any) -> dict[str, Any]:
    """Returns the first few numbers at the top of a typed result: the kinds themselves put what matters first."""
    if not isinstance(result, dict):
        return {}
    numbers = {key: value for key, value in result.items() if type(value) in (int, float)}
    return dict(list(numbers.items())[:_MAX_COUNTS])


def _lineage_rows(lineage: Lineage, run_id: str | None) -> list[dict[str, Any]]:
    """One row a step, from the checkpoint up, each with the names of what it was made from."""
    names = {node.key: node.name for node in lineage.nodes}
    parents: dict[str, list[str]] = {node.key: [] for node in lineage.nodes}
    for edge in lineage.edges:
        mark = " (waited for)" if edge.relation == "after" else ""
        parents[edge.child].append(f"{names[edge.parent]}{mark}")
    return [
        {**_step(node, run_id), "depth": node.depth, "made_from": sorted(set(parents[node.key]))}
        for node in sorted(lineage.nodes, key=lambda node: (node.depth, node.name))
    ]


def _versions(lineage: Lineage) -> dict[str, Any]:
    """What made the checkpoint: commit, Python, packages, command line. Neither host nor user: a page is passed on."""
    provenance = lineage.start.record.provenance or {}
    packages = provenance.get("packages") or {}
    git = provenance.get("git") or {}
    return {
        "commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "python": provenance.get("python"),
        "platform": provenance.get("platform"),
        "cpu_count": provenance.get("cpu_count"),
        "packages": {name: packages[name] for name in _SHOWN_PACKAGES if name in packages},
        "experiment": provenance.get("experiment"),
        "command_line": provenance.get("command_line"),
    }
