"""The verb that says in what two outputs differ, over all that they were made from."""

from collections.abc import Sequence
from typing import Any

import click

from marin_exec.cli.options import HELP, json_option, prefix_option, print_json, print_table
from marin_exec.cli.store_verbs import store_for
from marin_exec.wording import some_of

MAX_RESULTS = 5
MAX_NAMED = 6


@click.command(context_settings=HELP, epilog="A and B are paths, step names or digests.")
@click.argument("a")
@click.argument("b")
@prefix_option
@json_option
def diff(a: str, b: str, prefix: str, as_json: bool) -> None:
    """Show in what A and B, and all they were made from, differ.

    First what was changed, then what follows from it.
    """
    from marin_exec.ancestry import compare
    from marin_exec.lineage import locate

    store = store_for(prefix, a)
    compared = compare(store, locate(store, a).record, locate(store, b).record)
    if as_json:
        print_json(compared)
        return
    for side in ("a", "b"):
        click.echo(f"{side}: {_named(compared[side])}")
    click.echo(_verdict(compared))
    _print_steps("root differences", [row for row in compared["steps"] if row["root"]])
    _print_steps("what follows from them", [row for row in compared["steps"] if not row["root"]])
    for side in ("a", "b"):
        if only := compared[f"only_{side}"]:
            names = [f"{each['name']} ({each['digest'][:16]})" for each in only]
            click.echo(f"only in {side}: {some_of(names, MAX_NAMED)}")
    if compared["agree"]:
        click.echo(f"agree: {some_of(compared['agree'], MAX_NAMED)}")
    if compared["environment"]:
        click.echo("environment")
        print_table(
            [
                [f"  {row['key']}", f"{row['a']}", f"-> {row['b']}", f"in {some_of(row['steps'], 3)}"]
                for row in compared["environment"]
            ]
        )


def _verdict(compared: dict[str, Any]) -> str:
    if compared["same_identity"]:
        return "the same step" + (", and the same output" if compared["same_output"] else ", and yet different output")
    return "the same output by another recipe" if compared["same_output"] else "different output"


def _print_steps(title: str, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        click.echo(f"{title} ({len(rows)} {'step' if len(rows) == 1 else 'steps'})")
    for row in rows:
        _print_step(row)


def _print_step(row: dict[str, Any]) -> None:
    digests = [row[side]["digest"][:16] for side in ("a", "b")]
    which = digests[0] if digests[0] == digests[1] else f"{digests[0]} -> {digests[1]}"
    if None in (row["a"]["attempt"], row["b"]["attempt"]):
        came_out = "nothing is recorded of one of them"
    else:
        came_out = "same output" if row["same_output"] else "output differs"
    names = list(dict.fromkeys(each["b"] for each in row["inputs"]))
    because = f", because of {some_of(names, MAX_NAMED)}" if names and not row["root"] else ""
    click.echo(f"  {row['name']}  ({which})  {came_out}{because}")
    table = [[f"    {each['path']}", f"{each['a']}", f"-> {each['b']}"] for each in row["fields"]]
    table += [["    code", name, "differs"] for name in row["functions"]]
    table += [[f"    {each['path']}", f"{each['a']}", f"-> {each['b']}"] for each in row["results"][:MAX_RESULTS]]
    print_table(table)
    if len(row["results"]) > MAX_RESULTS:
        click.echo(f"    and {len(row['results']) - MAX_RESULTS} more results (--json has all)")
    if row["unexplained"]:
        click.echo("    the same recipe, code and content of the inputs, and yet different output: see the environment")
    for side in ("a", "b"):
        if row[side]["link"]:
            click.echo(f"    {side} was {row[side]['link']}")


def _named(end: dict[str, Any]) -> str:
    return f"{end['name']} ({end['digest'][:16]}, attempt {end['attempt']})"
