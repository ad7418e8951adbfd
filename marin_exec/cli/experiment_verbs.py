"""The verbs that take an experiment: plan, run, why."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from marin_exec.cli import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_MAX_RUNS, EXIT_MISMATCH, EXIT_WORK_TO_DO, say_error
from marin_exec.cli.options import (
    HELP,
    counted,
    experiment_arguments,
    json_option,
    prefix_option,
    print_json,
    print_table,
)
from marin_exec.errors import ConfigError, StoreError
from marin_exec.wording import some_of

if TYPE_CHECKING:
    from marin_exec.plan import Plan, PlannedStep, PlanOptions
    from marin_exec.records import Record
    from marin_exec.store import Store

_MAX_NAMED = 6
"""Steps, or functions, that a line about changed code names; `plan --json` has all."""
_CODE_CHANGE = click.option(
    "--on-code-change",
    type=click.Choice(["say", "reuse", "rerun", "refuse"]),
    default="say",
    show_default=True,
    help="A finished step whose code differs: reuse and say so; also take up its half-done shards (reuse); run it again; refuse.",
)


def _chosen_steps(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose steps; they come as keyword arguments of these names, for `_options`."""
    for option in reversed(
        [
            click.option("--only", multiple=True, metavar="NAME", help="Just this step: what it needs must be there."),
            click.option("--until", multiple=True, metavar="NAME", help="This step and what it needs."),
            click.option(
                "--from",
                "start_from",
                multiple=True,
                metavar="NAME",
                help="This step again, and all that is made from it; nothing else.",
            ),
            click.option("--force", multiple=True, metavar="NAME", help="This step again, even if it is done."),
            click.option("--with-descendants", is_flag=True, help="With --force: also all that is made from it."),
            _CODE_CHANGE,
        ]
    ):
        command = option(command)
    return command


_NAMES = "NAMEs may be patterns (*, ?, [...]); the options that take one are repeatable."


def _options(on_code_change: str, **chosen: Any) -> "PlanOptions":
    from marin_exec.plan import OnCodeChange, PlanOptions

    return PlanOptions(on_code_change=OnCodeChange(on_code_change), **chosen)


@click.command(context_settings={**HELP, "ignore_unknown_options": True}, epilog=_NAMES)
@experiment_arguments
@prefix_option
@_chosen_steps
@click.option("--check", is_flag=True, help="Exit with 3 if something would run.")
@click.option("-v", "--verbose", is_flag=True, help="List reused steps too.")
@json_option
def plan(
    experiment: str,
    parameters: tuple[str, ...],
    prefix: str,
    check: bool,
    verbose: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Show what a run of EXPERIMENT would do, and why.

    Writes nothing.

    PARAMETERS are passed to the experiment's pipeline(), as draccus takes them.
    """
    from marin_exec.experiment import load_experiment
    from marin_exec.plan import make_plan
    from marin_exec.store import Store

    loaded = load_experiment(experiment, parameters)
    made = make_plan(loaded.steps, Store.open(prefix), _options(experiment=str(loaded.path), **chosen))
    if as_json:
        print_json(plan_as_json(made))
    else:
        print_plan(made, verbose=verbose)
    if check and made.to_run:
        sys.exit(EXIT_WORK_TO_DO)


@click.command(context_settings={**HELP, "ignore_unknown_options": True}, epilog=_NAMES)
@experiment_arguments
@prefix_option
@_chosen_steps
@click.option(
    "--max-runs", type=click.IntRange(min=0), help="Refuse before starting, with exit code 5, if more steps would run."
)
@click.option(
    "--backend",
    type=click.Choice(["ray", "local"]),
    default="ray",
    show_default=True,
    help="Where steps run; local is this process.",
)
@click.option("--address", help="Of a Ray cluster; by default RAY_ADDRESS, else one is started on this machine.")
@click.option("--max-concurrent", type=click.IntRange(min=1), help="Steps that run at the same time.")
@click.option("--dry-run", is_flag=True, help="The same as `plan`.")
def run(
    experiment: str,
    parameters: tuple[str, ...],
    prefix: str,
    max_runs: int | None,
    backend: str,
    address: str | None,
    max_concurrent: int | None,
    dry_run: bool,
    **chosen: Any,
) -> None:
    """Run what is not done yet of EXPERIMENT.

    What is done is reused. What is not is run once, whoever else runs it too.

    PARAMETERS are passed to the experiment's pipeline(), as draccus takes them.
    """
    from marin_exec.experiment import load_experiment
    from marin_exec.plan import make_plan
    from marin_exec.store import Store, check_writable

    if backend == "local" and address:
        raise ConfigError(f"--backend local and --address {address}: a local run uses no cluster; give one of them")
    loaded = load_experiment(experiment, parameters)
    store = Store.open(prefix)
    options = _options(experiment=str(loaded.path), **chosen)
    made = make_plan(loaded.steps, store, options)
    if dry_run:
        print_plan(made, verbose=False)
        return
    would_run = len(made.to_run)
    if max_runs is not None and would_run > max_runs:
        print_plan(made, verbose=False)
        say_error(f"{would_run} steps would run, and --max-runs is {max_runs}; nothing was started")
        sys.exit(EXIT_MAX_RUNS)
    if made.to_do and (warning := check_writable(store)):
        click.echo(f"warning: {warning}", err=True)
    if _register(store, loaded.name, made):
        made = make_plan(loaded.steps, store, options)  # what it counts on is kept by `gc` only from now on
    _say_code_changes(made)
    if not made.to_do:
        click.echo(f"{_counts(made)}; nothing to run", err=True)
        _print_targets(store, {digest: made.steps[digest].record for digest in made.targets})
        return
    from marin_exec.run import run_plan  # a run that finds everything done does without

    outcome = run_plan(made, store, loaded, backend=backend, address=address, max_concurrent=max_concurrent)
    _print_targets(
        store, {digest: outcome.statuses[digest].record for digest in made.targets if digest in outcome.statuses}
    )
    if outcome.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if outcome.failed:
        mismatch = any(status.failure is not None and status.failure.mismatch for status in outcome.failed)
        sys.exit(EXIT_MISMATCH if mismatch else EXIT_FAILED)


@click.command(context_settings={**HELP, "ignore_unknown_options": True})
@click.argument("experiment", type=click.Path())
@click.argument("step")
@click.argument("parameters", nargs=-1, type=click.UNPROCESSED)
@prefix_option
@_chosen_steps
@json_option
def why(experiment: str, step: str, parameters: tuple[str, ...], prefix: str, as_json: bool, **chosen: Any) -> None:
    """Say why STEP of EXPERIMENT would run, or be reused.

    Down to the root causes, through any chain of upstreams.
    """
    from marin_exec.experiment import load_experiment
    from marin_exec.explain import nearest_of_kind
    from marin_exec.plan import check_names, make_plan
    from marin_exec.step import topological
    from marin_exec.store import Store

    loaded = load_experiment(experiment, parameters)
    known = topological(list(loaded.steps))
    check_names([step], known)
    options = _options(experiment=str(loaded.path), **chosen)
    store = Store.open(prefix)
    planned = make_plan(loaded.steps, store, options).named(step)
    if planned is None:  # nothing that was chosen is made from it
        alone = dataclasses.replace(options, only=(), until=(step,), start_from=(), force=(), with_descendants=False)
        planned = make_plan(loaded.steps, store, alone).named(step)
    if planned is None:
        raise ConfigError(
            f"why {step}: name one step, not a pattern; `marin-exec plan EXPERIMENT --verbose` says it of each"
        )
    never_run = planned.causes == (f"{step}: never run",)
    relative = nearest_of_kind(store, planned, {each.name for each in known}) if never_run else None
    if as_json:
        perhaps = {"name": relative.record.name, "digest": relative.record.digest} if relative else None
        print_json({**planned_as_json(planned), "perhaps_renamed_from": perhaps})
        return
    click.echo(f"{planned.step.name} ({planned.digest[:16]}): {planned.action}")
    click.echo(f"  because: {planned.explanation}")
    for cause in planned.causes:
        click.echo(f"  root cause: {cause}")
    if relative is not None:
        changes = [f"{each.path} {each.old or 'absent'} -> {each.new or 'absent'}" for each in relative.differences]
        click.echo(
            f"  perhaps renamed from {relative.record.name} ({relative.record.digest[:16]}): {'; '.join(changes[:3])}"
        )
    if planned.record is not None:
        click.echo(
            f"  last made: {planned.record.finished[:19]} by run {planned.record.run_id}, attempt {planned.record.attempt}"
        )
    for name in planned.code_changed:
        click.echo(f"  code changed: {name}")
    click.echo("  not covered: code of installed packages, data behind literal paths, and the engine itself")


def _register(store: "Store", name: str, made: "Plan") -> bool:
    """Registers the targets as an experiment's, and returns whether they were not before.

    A store that can only be read will do when nothing has to run.
    """
    from marin_exec.store import register_root

    try:
        names = {digest: made.steps[digest].step.name for digest in made.targets}
        return register_root(store, name, made.targets, made.steps, names)
    except (OSError, StoreError) as error:
        if made.to_do:
            raise StoreError(f"store {store.prefix}: the experiment cannot be registered: {error}") from error
        click.echo(f"note: {name} is not registered in {store.prefix}, which cannot be written ({error})", err=True)
        return False


def _print_targets(store: "Store", records: "dict[str, Record | None]") -> None:
    """Prints where each target's output is; an output that is one page is named by the page."""
    for record in records.values():
        if record is not None:
            pages = [entry.path for entry in record.files if entry.path.endswith(".html") and "/" not in entry.path]
            path = f"{record.output_path}/{pages[0]}" if len(pages) == 1 else record.output_path
            click.echo(f"{record.name}\t{store.url(path)}")


def print_plan(made: "Plan", *, verbose: bool) -> None:
    """Prints one line a step that is not simply reused, and the counts."""
    from marin_exec.plan import Action

    rows = [
        [each.action.value, " = ".join(each.names), each.explanation]
        for each in made.steps.values()
        if verbose or each.action is not Action.REUSE or each.code_changed
    ]
    print_table(rows)
    click.echo(_counts(made))


def plan_as_json(made: "Plan") -> dict[str, Any]:
    """Returns a plan as plain values; these keys stay."""
    return {
        "targets": list(made.targets),
        "counts": dict(Counter(each.action.value for each in made.steps.values())),
        "steps": [planned_as_json(each) for each in made.steps.values()],
    }


def planned_as_json(each: "PlannedStep") -> dict[str, Any]:
    return {
        "name": each.step.name,
        "names": list(each.names),
        "kind": each.step.kind.name,
        "digest": each.digest,
        "action": each.action.value,
        "reason": each.explanation,
        "causes": list(each.causes),
        "code_changed": list(each.code_changed),
        "output": each.record.output_path if each.record else None,
        "link": each.link.to_json()
        if each.link
        else each.record.link.to_json()
        if each.record and each.record.link
        else None,
        "made_by_run": each.record.run_id if each.record else None,
        "depends_on": list(each.dependency_digests),
        "after": list(each.after),
    }


def _counts(made: "Plan") -> str:
    actions = Counter(each.action.value for each in made.steps.values())
    return f"{counted(len(made.steps), 'step')}: " + ", ".join(f"{actions[name]} {name}" for name in sorted(actions))


def _say_code_changes(made: "Plan") -> None:
    from marin_exec.plan import Action

    alike: dict[tuple[str, ...], list[str]] = {}
    for each in made.with_action(Action.REUSE, Action.LINK):
        if each.code_changed:
            how = "linked" if each.action is Action.LINK else "reused"
            alike.setdefault((how, *each.code_changed), []).append(each.step.name)
    for (how, *functions), names in alike.items():
        pronoun = "it" if len(names) == 1 else "them"
        click.echo(
            f"{some_of(names, _MAX_NAMED)}: {how}, though code changed in {some_of(functions, _MAX_NAMED)} "
            f"(--on-code-change rerun makes {pronoun} again)",
            err=True,
        )
