"""The verb that checks outputs: verify."""

import dataclasses
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from marin_exec.cli import EXIT_FAILED
from marin_exec.cli.options import HELP, counted, json_option, prefix_option, print_json, print_table
from marin_exec.errors import ConfigError

if TYPE_CHECKING:
    from marin_exec.lineage import Located
    from marin_exec.remake import Remade
    from marin_exec.store import Store
    from marin_exec.verification import Checked

SAID_EVERY = 50


@click.command(
    context_settings={**HELP, "ignore_unknown_options": True},
    epilog="ARTIFACT is a path, a step's name, or a digest. With --rerun give an experiment, and its parameters, instead.",
)
@click.argument("artifacts", nargs=-1, type=click.UNPROCESSED, metavar="[ARTIFACT]...")
@click.option("--all", "check_all", is_flag=True, help="Check every finished step of the store.")
@click.option("--checksums", is_flag=True, help="Read every file and compare its checksum; else presence and size.")
@click.option("--rerun", metavar="STEP", help="Make this step of an experiment again, beside its result, and compare.")
@click.option("--backend", type=click.Choice(["ray", "local"]), default="ray", show_default=True, help="With --rerun.")
@click.option("--address", help="With --rerun: of a Ray cluster.")
@prefix_option
@json_option
def verify(
    artifacts: tuple[str, ...],
    check_all: bool,
    checksums: bool,
    rerun: str | None,
    backend: str,
    address: str | None,
    prefix: str,
    as_json: bool,
) -> None:
    """Check that the files of outputs are as recorded. Damage is listed file by file, with exit code 1.

    --rerun leaves nothing behind and changes nothing, whether the step comes out equal (exit code 0) or not (1).
    """
    from marin_exec.store import Store

    if rerun is not None:
        if not artifacts or check_all or checksums:
            raise ConfigError("--rerun STEP goes with an experiment: marin-exec verify experiment.py --rerun STEP")
        _verify_by_making(Store.open(prefix), artifacts, rerun, backend, address, as_json)
    elif check_all == bool(artifacts):
        raise ConfigError("give artifacts to check, or --all; `marin-exec ls` lists the finished steps")
    else:
        _verify_files(prefix, artifacts, checksums, as_json)


def _verify_files(prefix: str, artifacts: tuple[str, ...], checksums: bool, as_json: bool) -> None:
    from marin_exec.verification import check_outputs

    store, chosen, unreadable = _chosen(prefix, artifacts)
    checked = check_outputs(store, chosen, checksums=checksums, done=_Progress(len(chosen)))
    damaged = [each for each in checked if each.damage]
    files, size = sum(each.files for each in checked), sum(each.bytes for each in checked)
    if as_json:
        print_json(
            {
                "prefix": store.prefix,
                "outputs": len(checked),
                "files": files,
                "bytes": size,
                "checksums": checksums,
                "damaged": [_damaged_as_json(each) for each in damaged],
                "unreadable": unreadable,
            }
        )
    else:
        rows = [[each.record.name, each.record.digest[:16], path, why] for each in damaged for path, why in each.damage]
        print_table(rows)
        for problem in unreadable:
            click.echo(problem)
        how = "every byte" if checksums else "presence and size"
        outputs, of_them = counted(len(checked), "output"), counted(files, "file")
        counts = f"{outputs}, {of_them}, {size:,} bytes checked by {how}"
        click.echo(f"{counts}: {f'{len(damaged) + len(unreadable)} damaged' if damaged or unreadable else 'all whole'}")
    if damaged or unreadable:
        sys.exit(EXIT_FAILED)


def _chosen(prefix: str, artifacts: tuple[str, ...]) -> "tuple[Store, list[Located], list[str]]":
    """Returns the store, what is to be checked in it, and what is wrong with records that cannot be read."""
    from marin_exec.cli.store_verbs import store_for
    from marin_exec.lineage import Located, all_current, locate
    from marin_exec.store import Store

    if artifacts:
        store = store_for(prefix, artifacts[0])
        return store, [locate(store, each) for each in artifacts], []
    store, problems = Store.open(prefix), []
    records = sorted(all_current(store, problems), key=lambda record: (record.name, record.digest))
    return store, [Located(record, "") for record in records], problems


class _Progress:
    """Says now and then on stderr how far the check is."""

    def __init__(self, total: int):
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, checked: "Checked") -> None:
        with self._lock:
            self._done += 1
            if self._done % SAID_EVERY == 0 and self._done < self._total:
                click.echo(f"{self._done} of {self._total} outputs checked", err=True)


def _damaged_as_json(each: "Checked") -> dict[str, Any]:
    return {
        "name": each.record.name,
        "digest": each.record.digest,
        "output": each.record.output_path,
        "files": [{"path": path, "reason": why} for path, why in each.damage],
    }


def _verify_by_making(
    store: "Store", arguments: tuple[str, ...], step: str, backend: str, address: str | None, as_json: bool
) -> None:
    from marin_exec.experiment import load_experiment
    from marin_exec.plan import PlanOptions, check_names, make_plan
    from marin_exec.remake import remake
    from marin_exec.step import topological

    loaded = load_experiment(arguments[0], arguments[1:])
    check_names([step], topological(list(loaded.steps)))
    plan = make_plan(loaded.steps, store, PlanOptions(until=(step,)))
    remade = remake(store, plan, loaded, step, backend=backend, address=address)
    if as_json:
        print_json(dataclasses.asdict(remade))
    else:
        _print_remade(remade)
    if not remade.equal:
        sys.exit(EXIT_FAILED)


def _print_remade(remade: "Remade") -> None:
    old, new = remade.output_digests
    if remade.equal:
        also = f"; {len(remade.files)} files differ in bytes, and mean the same" if remade.files else ""
        click.echo(f"{remade.name}: equal to attempt {remade.attempt} (output digest {old[:16]}){also}")
        return
    click.echo(f"{remade.name}: differs from attempt {remade.attempt} (output digest {old[:16]} -> {new[:16]})")
    print_table([[f"  {path}", how] for path, how in remade.files])
    if remade.result is not None:
        click.echo(f"  result {remade.result[0]} -> {remade.result[1]}")
