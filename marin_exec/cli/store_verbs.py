"""The verbs that look at a store: show, lineage, ls."""

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from marin_exec.cli.options import HELP, json_option, prefix_option, print_json, print_table

if TYPE_CHECKING:
    from marin_exec.lineage import Lineage, Node
    from marin_exec.records import Record

_DEEPEST_INDENT = 20
"""In levels: what is further away is not set further in, so that a long chain stays readable."""
_ARTIFACT_HELP = "ARTIFACT is a path (a checkpoint, a shard), a step's name, or a digest."


@click.command(context_settings=HELP, epilog=_ARTIFACT_HELP)
@click.argument("artifact")
@prefix_option
@json_option
def show(artifact: str, prefix: str, as_json: bool) -> None:
    """Show the record of ARTIFACT.

    What it is, what it was made from, by what, and what came out.
    """
    from marin_exec.identity import flatten
    from marin_exec.lineage import locate

    store = store_for(prefix, artifact)
    found = locate(store, artifact)
    record = found.record
    if as_json:
        print_json({"sub_path": found.sub_path, "record": record.to_json()})
        return
    click.echo(f"{record.name}  {record.kind} v{record.kind_version}  digest {record.digest}")
    click.echo(f"output   {store.url(record.output_path)}")
    if record.link is not None:
        click.echo(f"link     {record.link.phrase}")
    size = sum(entry.size_bytes for entry in record.files)
    click.echo(f"files    {len(record.files)}, {size:,} bytes; output digest {record.output_digest[:16]}")
    ended = f"{record.finished[:19]} ({record.seconds:.1f} s)" if record.finished else "(not finished)"
    click.echo(f"made     {record.started[:19]} to {ended}, attempt {record.attempt}, run {record.run_id}")
    git = record.provenance.get("git", {})
    commit = f"{git.get('commit') or 'none'}{' (dirty)' if git.get('dirty') else ''}"
    click.echo(f"code     commit {commit}; source {record.source['digest'][:16]}")
    click.echo(f"command  {record.provenance.get('command_line')}")
    if record.pieces:
        click.echo(f"pieces   {record.pieces['made']} made, {record.pieces['taken_up']} taken up from earlier attempts")
    _print_pairs("config", flatten(record.identity))
    _print_pairs("inputs", {bound.name: f"{bound.digest[:16]} {bound.path}" for bound in record.dependencies})
    _print_pairs("after", {bound.name: f"{bound.digest[:16]} {bound.output_digest[:16]}" for bound in record.after})
    _print_pairs("see", {name: digest[:16] for name, digest in record.see})
    _print_pairs("result", _flat(record.result))
    _print_pairs("measured", _flat(record.measured))


@click.command(context_settings=HELP, epilog=_ARTIFACT_HELP)
@click.argument("artifact")
@click.option("--up", "up", type=click.IntRange(min=1), help="This many steps up; all the way by default.")
@click.option("--down", "down", is_flag=True, help="What was made from it, instead of what it was made from.")
@click.option("--depth", type=click.IntRange(min=1), help="With --down: this many steps.")
@prefix_option
@json_option
def lineage(artifact: str, up: int | None, down: bool, depth: int | None, prefix: str, as_json: bool) -> None:
    """Show what ARTIFACT was made from, up to the sources.

    With commits, configs and counts on the way.
    """
    from marin_exec.lineage import downstream, locate, upstream

    store = store_for(prefix, artifact)
    start = locate(store, artifact)
    found = downstream(store, start, depth=depth) if down else upstream(store, start, depth=up)
    if as_json:
        print_json(lineage_as_json(found))
        return
    click.echo(
        f"{start.record.name}{'/' + start.sub_path if start.sub_path else ''}  {'is used by' if down else 'was made from'}"
    )
    for node in found.nodes:
        _print_node(node, found)


@click.command(context_settings=HELP)
@prefix_option
@json_option
@click.option("--kind", help="Only steps of this kind.")
def ls(prefix: str, as_json: bool, kind: str | None) -> None:
    """List the finished steps of the store, oldest first."""
    from marin_exec.lineage import all_current
    from marin_exec.store import Store

    store = Store.open(prefix)
    problems: list[str] = []
    records = sorted(all_current(store, problems), key=lambda record: (record.finished, record.name))
    for problem in problems:
        click.echo(f"note: left out: {problem}", err=True)
    rows = [_ls_row(record) for record in records if kind is None or record.kind == kind]
    if as_json:
        print_json({"prefix": store.prefix, "steps": rows})
        return
    print_table(
        [
            [r["finished"][:19], r["name"], r["kind"], r["digest"][:16], f"{r['bytes']:>12,}", f"{r['seconds']:.1f} s"]
            for r in rows
        ]
    )


def lineage_as_json(found: "Lineage") -> dict[str, Any]:
    """Returns a lineage as plain values; these keys stay."""
    return {
        "artifact": {
            "name": found.start.record.name,
            "digest": found.start.record.digest,
            "sub_path": found.start.sub_path,
        },
        "nodes": [
            {
                "key": node.key,
                "depth": node.depth,
                "name": node.name,
                "kind": node.kind,
                "digest": node.digest,
                "record": node.record.to_json() if node.record else None,
            }
            for node in found.nodes
        ],
        "edges": [dataclasses.asdict(edge) for edge in found.edges],
    }


def _print_node(node: "Node", found: "Lineage") -> None:
    from marin_exec.identity import flatten

    indent = "  " * min(node.depth, _DEEPEST_INDENT)
    record = node.record
    if record is None:
        click.echo(f"{indent}{node.name} {node.digest[:16]} (nothing is recorded of it)")
        return
    commit = (record.provenance.get("git") or {}).get("commit") or "none"
    what = f"{record.kind} v{record.kind_version}"
    click.echo(
        f"{indent}{node.name}  {what}  {node.digest[:16]}  {record.finished[:19] or '(not finished)'}  commit {commit}"
    )
    inputs = ", ".join(
        f"{bound.name}{' @' + bound.milestone if bound.milestone else ''}" for bound in record.dependencies
    )
    for title, text in (
        ("link", record.link.phrase if record.link else ""),
        (
            "config",
            _one_line({key: value for key, value in flatten(record.identity).items() if not value.startswith("step ")}),
        ),
        ("counts", _one_line(_flat(record.result))),
        ("inputs", inputs),
        ("waited for", ", ".join(f"{bound.name} {bound.output_digest[:16]}" for bound in record.first_after)),
        ("see", ", ".join(f"{name} {digest[:16]}" for name, digest in record.see)),
    ):
        if text:
            click.echo(f"{indent}    {title}: {text}")


def _ls_row(record: "Record") -> dict[str, Any]:
    return {
        "name": record.name,
        "kind": record.kind,
        "digest": record.digest,
        "finished": record.finished,
        "seconds": record.seconds,
        "files": len(record.files),
        "bytes": sum(entry.size_bytes for entry in record.files),
        "output": record.output_path,
        "run_id": record.run_id,
    }


def store_for(prefix: str, artifact: str) -> Any:
    """Returns the store that an absolute path or URL lies in, else the one at the prefix."""
    from marin_exec.store import Store

    if artifact.startswith("/") or "://" in artifact:
        return Store.containing(artifact)
    return Store.open(prefix)


def _flat(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        flat: dict[str, str] = {}
        for key, each in value.items():
            flat |= _flat(each, f"{path}.{key}" if path else str(key))
        return flat
    return {} if value is None else {path: f"{value}"}


def _one_line(pairs: dict[str, str]) -> str:
    return ", ".join(f"{key.removeprefix('config.')} {value}" for key, value in pairs.items() if key != "format")


def _print_pairs(title: str, pairs: dict[str, str]) -> None:
    if pairs:
        click.echo(title)
        print_table([[f"  {key}", value] for key, value in pairs.items()])
