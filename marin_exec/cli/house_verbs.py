"""The verbs that keep a store in order: gc, roots, invalidate."""

import dataclasses
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from marin_exec.cli.options import HELP, counted, json_option, prefix_option, print_json, print_table
from marin_exec.errors import ConfigError, StoreError
from marin_exec.wording import some_of

if TYPE_CHECKING:
    from marin_exec.cleaning import Removed
    from marin_exec.garbage import Survey
    from marin_exec.store import Store

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Duration(click.ParamType):
    """A time like 90s, 15m, 12h, 7d, 2w, or 0; gives seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])|0()", str(value))
        if match is None:
            self.fail(f"{value!r} is not a time; give a number with s, m, h, d or w, e.g. 12h or 7d", param, ctx)
        return float(match[1] or 0) * _UNITS[match[2] or "s"]


@click.command(context_settings=HELP)
@click.option("--delete", is_flag=True, help="Remove it; without this, only say what would go.")
@click.option(
    "--grace",
    type=Duration(),
    default="7d",
    show_default=True,
    help="What was written later than that stays, by this machine's clock.",
)
@click.option(
    "--keep-last",
    type=click.IntRange(min=1),
    metavar="N",
    help="Count only the newest N roots of each experiment (and those of runs that go on); by default all count.",
)
@prefix_option
@json_option
def gc(delete: bool, grace: float, keep_last: int | None, prefix: str, as_json: bool) -> None:
    """Find the data that nobody needs; with --delete, remove it.

    That is what no registered root of any experiment leads to. Kept are the current results of all steps that an
    experiment's roots reach, what an unfinished step would go on from, and what running steps hold or read. Heads, records
    and logs always stay. Steps that are held are watched for a lease time.
    """
    from marin_exec.cleaning import clean
    from marin_exec.cli.log_verbs import watching
    from marin_exec.garbage import survey
    from marin_exec.provenance import user_name
    from marin_exec.store import Store

    store = Store.open(prefix)
    found = survey(store, grace_seconds=grace, now=time.time(), silent=watching(store), keep_last=keep_last)
    if not found.num_roots and found.garbage:
        click.echo(f"note: no root is registered in {store.prefix}, so nothing keeps its outputs", err=True)
    removed = clean(found, user_name()) if delete else None
    if as_json:
        print_json(survey_as_json(found, removed))
        return
    print_table(
        [
            [each.reason, f"{each.bytes:>15,} bytes", counted(each.files, "file").rjust(13), each.path]
            for each in found.garbage
        ]
    )
    for line in removed.skipped if removed else ():
        click.echo(f"left: {line}", err=True)
    if removed is None:
        what = f"{found.bytes:,} bytes in {counted(found.files, 'file')} can go; --delete removes them"
        nothing = "nothing can go" + ("; what was written to within the grace stays (--grace)" if grace else "")
        click.echo(what if found.garbage else nothing)
    else:
        click.echo(f"{removed.bytes:,} bytes in {counted(removed.files, 'file')} removed")


def survey_as_json(found: "Survey", removed: "Removed | None") -> dict[str, Any]:
    """Returns what was found and what was removed as plain values; these keys stay."""
    return {
        "prefix": found.store.prefix,
        "roots": found.num_roots,
        "steps_in_use": len(found.in_use.steps),
        "steps_running": len(found.alive),
        "garbage": [dataclasses.asdict(each) for each in found.garbage],
        "bytes": found.bytes,
        "files": found.files,
        "by_reason": dict(Counter(each.reason for each in found.garbage)),
        "removed": None if removed is None else dataclasses.asdict(removed),
    }


@click.command(context_settings=HELP)
@click.option("--drop", metavar="ID", help="Forget this root: what only it reaches can be cleaned up then.")
@prefix_option
@json_option
def roots(drop: str | None, prefix: str, as_json: bool) -> None:
    """List what experiments have registered as in use.

    By experiment, the newest first.
    """
    from marin_exec.store import Store, drop_root
    from marin_exec.store import roots as registered

    store = Store.open(prefix)
    found = registered(store)
    if drop is not None:
        matching = [each for each in found if each.startswith(drop)] if len(drop) >= 6 else []
        if len(matching) != 1:
            raise ConfigError(
                f"--drop {drop}: {len(matching)} roots of {store.prefix} begin so; give 6 digits or more of one of the ids that "
                "`marin-exec roots` shows"
            )
        drop_root(store, matching[0])
        dropped = found[matching[0]]
        click.echo(
            f"dropped the root of {dropped.name} of {dropped.registered[:19]}; a run of it registers it again", err=True
        )
        found = registered(store)
    unnamed = [digest for root in found.values() if not root.names for digest in root.digests]
    names = _names(store, unnamed)
    rows = [
        {
            "id": root_id,
            "name": root.name,
            "registered": root.registered,
            "targets": list(root.names) or [names.get(digest, digest[:16]) for digest in root.digests],
            "steps": len(root.digests) + len(root.reaches),
        }
        for root_id, root in found.items()
    ]
    if as_json:
        print_json({"prefix": store.prefix, "roots": rows})
        return
    print_table(
        [
            [row["name"], row["registered"][:19], row["id"][:12], f"{row['steps']} steps", some_of(row["targets"], 4)]
            for row in rows
        ]
    )


def _names(store: "Store", digests: list[str]) -> dict[str, str]:
    """Returns the names of steps that were ever done."""
    found = {}
    for digest in dict.fromkeys(digests):
        head = store.head(digest)
        record = store.readable_record(digest, head.data.current) if head and head.data.current is not None else None
        if record is not None:
            found[digest] = record.name
    return found


@click.command(context_settings=HELP, epilog="ARTIFACT is a path, a step's name, or a digest.")
@click.argument("artifact")
@click.option("--why", required=True, metavar="TEXT", help="The reason; it is kept, and shown by plan, why and status.")
@prefix_option
def invalidate(artifact: str, why: str, prefix: str) -> None:
    """Declare that the result of ARTIFACT's step is none any more.

    The next run makes it again. What was made from it is made again too, unless it comes out the same. Its record and its
    data stay, until `gc`.
    """
    from marin_exec.cli.store_verbs import store_for
    from marin_exec.lineage import locate
    from marin_exec.provenance import user_name
    from marin_exec.store.withdrawal import invalidate as withdraw

    if not why.strip():
        raise ConfigError("--why is empty; say why the result is no good, for those who wonder later")
    store = store_for(prefix, artifact)
    found = locate(store, artifact)
    record = found.record
    current = store.current(record.digest)
    if current is not None and current.attempt != record.attempt:
        raise StoreError(
            f"{artifact}: is of attempt {record.attempt}; the result of {record.name} is attempt {current.attempt} by now. "
            f"Name the step or its digest ({record.digest[:16]}) to invalidate that"
        )
    head = withdraw(store, record.digest, user_name(), why.strip())
    click.echo(f"{record.name}\t{record.digest[:16]}\tinvalidated {head.invalidated}")
