"""Dagster: an asset a step, in one process, its instance in sqlite.

A job runs all assets that it is given, so a warm run asks Dagster which assets are stale and gives it those.
"""

import os
import sys
from pathlib import Path

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"

import dagster
from dag import LAYERS, WIDTH, body_ran, parents, report, steps, value

HOME = Path(os.environ["BENCH_STATE"], "dagster")
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


def asset_of(layer: int, number: int):
    inputs = {f"p{n}": dagster.AssetIn(f"s_{a}_{b}") for n, (a, b) in enumerate(parents(layer, number))}

    @dagster.asset(name=f"s_{layer}_{number}", ins=inputs, code_version="1")
    def made(**of_parents: int) -> int:
        body_ran()
        return value(of_parents.values())

    return made


def stale(definitions, instance) -> list:
    from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
    from dagster._core.loader import LoadingContextForTest

    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return [key for key in graph.get_all_asset_keys() if resolver.get_status(key) != StaleStatus.FRESH]


def main() -> None:
    HOME.mkdir(exist_ok=True)
    settings = HOME / "dagster.yaml"
    if not settings.exists():
        settings.write_text("telemetry:\n  enabled: false\n")
    assets = [asset_of(*step) for step in steps()]
    manager = dagster.FilesystemIOManager(base_dir=str(HOME / "storage"))
    with dagster.DagsterInstance.from_config(str(HOME)) as instance:
        definitions = dagster.Definitions(assets=assets, resources={"io_manager": manager})
        to_run = stale(definitions, instance)
        if to_run:
            given = {"instance": instance, "resources": {"io_manager": manager}, "run_config": QUIET}
            dagster.materialize(assets, selection=to_run, **given)
        last = [definitions.load_asset_value(f"s_{LAYERS - 1}_{number}", instance=instance) for number in range(WIDTH)]
    report(last)


if __name__ == "__main__" and "--start-only" not in sys.argv:
    main()
