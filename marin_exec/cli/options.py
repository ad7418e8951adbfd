"""Options that several verbs share, and how results are printed."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from marin_exec.cli import DEFAULT_PREFIX

HELP = {"help_option_names": ["-h", "--help"]}
"""On each verb, not only on the group: a verb called by itself has the same options."""


def prefix_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--prefix",
        envvar="MARIN_PREFIX",
        default=DEFAULT_PREFIX,
        show_default=True,
        show_envvar=True,
        help="The store: a folder, gs://bucket/path or s3://bucket/path.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


def experiment_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.argument("parameters", nargs=-1, type=click.UNPROCESSED)(command)
    return click.argument("experiment", type=click.Path())(command)


def counted(number: int, noun: str) -> str:
    """Returns e.g. "1 step" or "1,200 steps"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Prints rows with aligned columns; the last column is as long as it likes."""
    if not rows:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
