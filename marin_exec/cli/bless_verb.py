"""The verb by which a person says that a finished output serves for a step as it is declared now."""

import click

from marin_exec.cli.options import HELP, json_option, prefix_option, print_json
from marin_exec.errors import ConfigError
from marin_exec.secrets import redact


@click.command(context_settings={**HELP, "ignore_unknown_options": True})
@click.argument("experiment", type=click.Path())
@click.argument("step")
@click.argument("parameters", nargs=-1, type=click.UNPROCESSED)
@click.option("--why", required=True, metavar="TEXT", help="The reason, which stays in the record.")
@click.option(
    "--as",
    "chosen",
    metavar="PATH|DIGEST",
    help="The output that serves; by default that of the latest finished run of the step's name and kind.",
)
@prefix_option
@json_option
def bless(
    experiment: str,
    step: str,
    parameters: tuple[str, ...],
    why: str,
    chosen: str | None,
    prefix: str,
    as_json: bool,
) -> None:
    """Say that an earlier output serves for STEP of EXPERIMENT.

    It serves for the step as it is declared now, instead of running it. The step gets a record that names you and the
    reason. It also settles a change of code that a plan keeps mentioning.
    """
    from marin_exec.experiment import load_experiment
    from marin_exec.plan import PlanOptions, check_names, make_plan
    from marin_exec.provenance import new_run
    from marin_exec.runners.blessing import bless as bless_step
    from marin_exec.runners.blessing import blessing_target
    from marin_exec.step import topological
    from marin_exec.store import Store, register_root

    if not why.strip():
        raise ConfigError(f"bless {step}: --why is {why!r}; a reason is needed")
    loaded = load_experiment(experiment, parameters)
    check_names([step], topological(list(loaded.steps)))
    store = Store.open(prefix)
    plan = make_plan(loaded.steps, store, PlanOptions(until=(step,)))
    planned = plan.named(step)
    if planned is None:
        raise ConfigError(f"bless {step}: name one step, not a pattern")
    target = blessing_target(plan, planned, store, chosen)
    record = bless_step(
        plan, planned, store, target, redact(why.strip()), new_run(str(loaded.path), loaded.path.parent)
    )
    register_root(store, f"{loaded.name}: blessed", [record.digest], names={record.digest: record.name})
    assert record.link is not None
    if as_json:
        print_json(
            {"name": record.name, "digest": record.digest, "output": record.output_path, "link": record.link.to_json()}
        )
        return
    click.echo(record.link.phrase, err=True)
    click.echo(f"{record.name}\t{store.url(record.output_path)}")
