"""The verbs that show what goes on and what went wrong: status, logs."""

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from marin_exec.cli.options import HELP, counted, json_option, prefix_option, print_json, print_table
from marin_exec.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from marin_exec.records import Head
    from marin_exec.run_states import HeldStep
    from marin_exec.store import Store

FOLLOW_SECONDS = 0.5
MOST_RUNS = 20


@click.command(context_settings={**HELP, "ignore_unknown_options": True})
@click.argument("experiment", type=click.Path(), required=False)
@click.argument("parameters", nargs=-1, type=click.UNPROCESSED)
@click.option("--run", "run_id", metavar="ID", help="Show the event log of this run instead.")
@click.option("--follow", is_flag=True, help="With --run: go on as the log grows, until the run ends.")
@click.option(
    "--all", "show_all", is_flag=True, help=f"All runs; by default the last {MOST_RUNS} and those that go on."
)
@click.option("--no-watch", is_flag=True, help="Do not watch whether holders live, which takes up to a lease time.")
@prefix_option
@json_option
def status(
    experiment: str | None,
    parameters: tuple[str, ...],
    run_id: str | None,
    follow: bool,
    show_all: bool,
    no_watch: bool,
    prefix: str,
    as_json: bool,
) -> None:
    """Show how the steps of EXPERIMENT stand, or the store's runs.

    Without an experiment: the last runs, and the steps that are held now.
    """
    from marin_exec.store import Store

    store = Store.open(prefix)
    if run_id is not None:
        if experiment is not None:
            raise ConfigError("--run shows a run of the store; leave the experiment out")
        _show_run(store, run_id, follow, as_json)
    elif follow:
        raise ConfigError("--follow goes with --run ID; `marin-exec status` lists the runs")
    elif experiment is not None:
        _show_experiment(store, experiment, parameters, as_json)
    else:
        _show_runs(store, show_all, no_watch, as_json)


def _show_experiment(store: "Store", experiment: str, parameters: tuple[str, ...], as_json: bool) -> None:
    from marin_exec.experiment import load_experiment
    from marin_exec.plan import make_plan
    from marin_exec.status import step_states

    loaded = load_experiment(experiment, parameters)
    states = step_states(make_plan(loaded.steps, store), store)
    if as_json:
        print_json({"experiment": loaded.name, "steps": states})
        return
    print_table([[row["state"], row["name"], row["digest"][:16], row["detail"]] for row in states])
    counts = Counter(row["state"] for row in states)
    click.echo(f"{counted(len(states), 'step')}: {', '.join(f'{number} {state}' for state, number in counts.items())}")


def _show_runs(store: "Store", show_all: bool, no_watch: bool, as_json: bool) -> None:
    from marin_exec.garbage import read_heads
    from marin_exec.run_states import held_steps, run_state
    from marin_exec.store.run_log import run_ids

    heads = read_heads(store)
    held_heads = {digest: each.data for digest, each in heads.items() if each.data.state == "held"}
    dead = None if no_watch else watching(store)(held_heads)
    held = held_steps(store, heads, dead)
    ids = run_ids(store)
    chosen = ids if show_all else ids[-MOST_RUNS:]
    chosen += sorted({each.run_id for each in held} & set(ids) - set(chosen))
    runs = [
        each for run_id in sorted(chosen, reverse=True) if (each := run_state(store, run_id, heads, held)) is not None
    ]
    if as_json:
        as_values = {
            "runs": [dataclasses.asdict(each) for each in runs],
            "held": [dataclasses.asdict(each) for each in held],
        }
        print_json({"prefix": store.prefix, **as_values})
        return
    counts = [", ".join(f"{number} {name}" for name, number in each.counts.items()) for each in runs]
    print_table([[r.state, r.run_id, r.experiment, c, r.detail] for r, c in zip(runs, counts, strict=True)])
    if len(ids) > len(chosen):
        click.echo(f"and {len(ids) - len(chosen)} earlier runs (--all)")
    if held:
        click.echo("held now:")
    print_table([_held_row(each) for each in held])


def _held_row(each: "HeldStep") -> list[str]:
    life = {True: "alive", False: "silent", None: "held"}[each.alive]
    where = f"{each.host} (pid {each.pid})"
    since = f"since {each.since[:19]}, heartbeat {each.beat}"
    return [f"  {life}", each.name, each.digest[:16], f"attempt {each.attempt}", where, since, each.progress]


def watching(store: "Store") -> "Callable[[Mapping[str, Head]], set[str]]":
    """Returns what watches held steps and returns the dead ones; it says so, because it takes a while."""
    from marin_exec.runners.state import Timing
    from marin_exec.store import StalenessWatch
    from marin_exec.store.watching import dead_holders

    def watch(held: "Mapping[str, Head]") -> set[str]:
        if not held:
            return set()
        timing = Timing.from_environment()
        steps = "1 step is" if len(held) == 1 else f"{len(held)} steps are"
        click.echo(f"{steps} held; watching for up to {timing.lease:g} s whether the holders live", err=True)
        return dead_holders(store, held, StalenessWatch(timing.lease, timing.heartbeat), timing.poll)

    return watch


def _show_run(store: "Store", run_id: str, follow: bool, as_json: bool) -> None:
    from marin_exec.run_states import step_line
    from marin_exec.store.run_log import run_events, run_ids

    matching = [each for each in run_ids(store) if each == run_id]
    if not matching:
        raise StoreError(
            f"run {run_id}: none in {store.prefix} that had anything to do; `marin-exec status` lists the runs"
        )
    if as_json and not follow:
        print_json({"run_id": run_id, "events": run_events(store, run_id)})
        return

    def ended(events: list[dict[str, Any]]) -> bool:
        return bool(events) and events[-1]["type"] == "finished"

    for event in _growing(lambda: run_events(store, run_id), ended, follow):
        click.echo(json.dumps(event) if as_json else step_line(event))


@click.command(context_settings=HELP, epilog="ARTIFACT is a path in the store, a step's name, or a digest.")
@click.argument("artifact")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="By default the path's, else the last one.")
@click.option(
    "--follow", is_flag=True, help="Go on as the log grows, until the attempt ends. With --json: one line an event."
)
@prefix_option
@json_option
def logs(artifact: str, attempt: int | None, follow: bool, prefix: str, as_json: bool) -> None:
    """Show the log of ARTIFACT's step.

    Why it ran, what it said, and how it ended, with traceback and last output. For running, failed and finished steps
    alike. Of several steps of a name, that which was begun last is shown.
    """
    from marin_exec.attempt_lines import attempt_events, lines_of, state_of
    from marin_exec.cli.store_verbs import store_for
    from marin_exec.finding import find_step

    store = store_for(prefix, artifact)
    found = find_step(store, artifact)
    known = store.attempts(found.digest)
    chosen = attempt if attempt is not None else found.attempt
    if chosen not in known:
        raise StoreError(f"{found.name}: has no attempt {chosen}; it has {', '.join(map(str, known)) or 'none'}")
    if found.others:
        others = ", ".join(digest[:16] for digest in found.others[-4:])
        click.echo(
            f"note: {found.name} is {found.digest[:16]}, which was begun last; of that name is also {others}", err=True
        )

    def read() -> list[dict[str, Any]]:
        return attempt_events(store, found.digest, chosen)

    def ended(events: list[dict[str, Any]]) -> bool:
        return state_of(store, found.digest, chosen, events) != "running"

    if as_json and not follow:
        events = read()
        state = state_of(store, found.digest, chosen, events)
        head = {"name": found.name, "digest": found.digest, "attempt": chosen, "attempts": known, "state": state}
        print_json({**head, "events": events})
        return
    if not as_json:
        click.echo(f"{found.name} ({found.digest[:16]}), attempt {chosen} of {known[-1]}")
    shown = []
    for event in _growing(read, ended, follow):
        shown.append(event)
        for line in [json.dumps(event)] if as_json else lines_of(event):
            click.echo(line)
    state = state_of(store, found.digest, chosen, shown)
    if state in ("running", "never ended") and not as_json:
        click.echo(f"({state}: {_held_by(store, found.digest, chosen)})")


def _held_by(store: "Store", digest: str, attempt: int) -> str:
    head = store.head(digest)
    if head is None:
        return "nothing is recorded of the step any more"
    now = head.data
    if now.state == "held" and now.attempt == attempt:
        return f"held by {now.host} (pid {now.pid}); if that died, the next run takes over"
    return f"its driver died; the step is {now.state}, attempt {now.attempt}" + (f": {now.note}" if now.note else "")


def _growing(
    read: Callable[[], list[dict[str, Any]]], ended: Callable[[list[dict[str, Any]]], bool], follow: bool
) -> Iterator[dict[str, Any]]:
    """Yields events that were not yielded before, until there can be no more; only those of now without `follow`."""
    seen: set[str] = set()
    while True:
        events = read()
        last = not follow or ended(events)
        if last and follow:
            events = read()  # what was written between the reading and the end
        for event in events:
            key = json.dumps(event, sort_keys=True)
            if key not in seen:
                seen.add(key)
                yield event
        if last:
            return
        time.sleep(FOLLOW_SECONDS)
