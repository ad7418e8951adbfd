"""A look at every node of an existing cluster before anything runs there: versions, modules, and whether it sees the store.

What is wrong on one node of many shows itself only when a step lands there, hours into a run. The looks go on at the
same time on all nodes and have a bounded time; a node that does not answer is named and not waited for.
"""

import platform
import secrets
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from marin_exec.provenance import code_digest
from marin_exec.runners.capacity import shortfall
from marin_exec.runners.ray_environments import Environments
from marin_exec.runners.ray_nodes import node_option
from marin_exec.runners.ray_task import cluster_reason, lost_by_cluster
from marin_exec.step import Step
from marin_exec.store import Store
from marin_exec.store.layout import CONTROL, TEMPORARY

PREFLIGHT_SECONDS = 20.0
ONE_LINE = 300
DRIVER = "driver"
"""Name of the probe that the driver writes, in the folder of all probes."""


def problems_of_cluster(
    store: Store, steps: Sequence[Step], by_value: Sequence[str], environments: Environments, say: Callable[[str], None]
) -> list[str]:
    """Looks at every node, tries every runtime environment, and returns all that is wrong, where, and what to do.

    Args:
        store: which every node must see.
        steps: those that may run.
        by_value: modules that travel with the tasks.
        environments: of the steps.
        say: takes what need not be wrong.

    Raises:
        ConfigError: a local path in an environment does not exist.
    """
    import ray

    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    deadline = time.monotonic() + PREFLIGHT_SECONDS
    for step in steps:
        lacks = shortfall(step.resources, [node["Resources"] for node in nodes.values()])
        if lacks:
            say(f"{step.name} {lacks}; when its turn comes, it waits for a node that has it")
    probes = f"{CONTROL}/{TEMPORARY}probe-{secrets.token_hex(8)}"
    store.files.create(f"{probes}/{DRIVER}", b"seen")
    try:
        problems = _problems_of_nodes(nodes, expectations(store, probes, steps, by_value), deadline, say)
    finally:
        store.files.delete_tree(probes)
    return problems + environments.check(steps, max(1.0, deadline - time.monotonic()))


def _problems_of_nodes(
    nodes: dict[str, dict[str, Any]], expected: dict[str, Any], deadline: float, say: Callable[[str], None]
) -> list[str]:
    import ray
    from ray.exceptions import RayError

    remote = ray.remote(make_look())
    looks = {
        remote.options(num_cpus=0, max_retries=0, name="marin-exec preflight", **node_option(node_id)).remote(
            expected
        ): node
        for node_id, node in nodes.items()
    }
    problems: list[str] = []
    done, late = ray.wait(list(looks), num_returns=len(looks), timeout=max(0.0, deadline - time.monotonic()))
    for ref in done:
        host = looks[ref]["NodeManagerAddress"]
        try:
            found, notes = ray.get(ref)
        except lost_by_cluster() as error:  # it would happen to a step as well, and be tried again
            found, notes = [], [f"the look at it was lost; going on without its word. {cluster_reason(error)}"]
        except RayError as error:
            found, notes = [f"a task could not run there: {' '.join(str(error).split())[-ONE_LINE:]}"], []
        problems += [f"node {host}: {each}" for each in found]
        for each in notes:
            say(f"node {host}: {each}")
    for ref in late:
        say(
            f"node {looks[ref]['NodeManagerAddress']}: has not answered within {PREFLIGHT_SECONDS:.0f} s; going on without its word"
        )
        ray.cancel(ref, force=True)
    return problems


def expectations(store: Store, probes: str, steps: Sequence[Step], by_value: Sequence[str]) -> dict[str, Any]:
    """Returns what a node must have, in plain values: it may not be able to import this package."""
    import ray

    own = {"", "builtins", "__main__", *by_value}
    modules = {
        module
        for step in steps
        if not step.resources.runtime_env  # which may be what has them
        for module in (getattr(step.fn, "__module__", "") or "", type(step.config).__module__)
    }
    return {
        "python": platform.python_version(),
        "ray": ray.__version__,
        "marin_exec": metadata.version("marin-exec"),
        "code": code_digest(Path(__file__).parents[1]),
        "modules": sorted(modules - own),
        "prefix": store.prefix,
        "probes": probes,
    }


def make_look() -> Callable[[dict[str, Any]], tuple[list[str], list[str]]]:
    """Returns the function that looks at the node where it runs: what is wrong, and what may be.

    It is made here, and imports all that it needs, so that it travels whole: a node without this package can run it.
    """

    def look(expected: dict[str, Any]) -> tuple[list[str], list[str]]:
        import importlib.util
        import platform
        import secrets
        import sys
        from importlib import metadata
        from pathlib import Path

        problems: list[str] = []
        notes: list[str] = []
        python, ray = platform.python_version(), metadata.version("ray")
        if python.split(".")[:2] != expected["python"].split(".")[:2]:
            problems.append(f"has Python {python}, and the driver {expected['python']}; use one version everywhere")
        if ray != expected["ray"]:
            problems.append(f"has Ray {ray}, and the driver {expected['ray']}; use one version everywhere")
        try:
            import marin_exec
            from marin_exec.store import Store
        except ImportError as error:
            problems.append(
                f"marin_exec cannot be imported there ({error}); install this project for {sys.executable} on that machine"
            )
            return problems, notes
        version = metadata.version("marin-exec")
        if version != expected["marin_exec"]:
            problems.append(
                f"has marin_exec {version}, and the driver {expected['marin_exec']}; use one version everywhere"
            )
            return problems, notes
        from marin_exec.provenance import code_digest

        assert marin_exec.__file__ is not None
        if code_digest(Path(marin_exec.__file__).parent) != expected["code"]:
            notes.append("its marin_exec differs from the driver's in some file; bring both to the same commit")
        for module in expected["modules"]:
            try:
                found = importlib.util.find_spec(module) is not None
            except (ImportError, ValueError):  # the package that it would be in cannot be imported
                found = False
            if not found:
                problems.append(f"module {module} of a step is not there; install it, or put it beside the experiment")
        store, probes = Store.open(expected["prefix"]), expected["probes"]
        try:
            if store.files.read(f"{probes}/driver") is None:
                problems.append(
                    f"the store {store.prefix} is another one there: what the driver has just written is not in it. Use a "
                    f"folder that all machines share, under one path, or an object store (gs://, s3://)"
                )
            else:
                store.files.create(f"{probes}/{secrets.token_hex(8)}", b"seen")
        except Exception as error:  # whatever a filesystem raises without credentials, mounts or a network
            problems.append(
                f"the store {store.prefix} cannot be used there ({type(error).__name__}: {error}); give that machine access: "
                f"credentials, environment variables, the mount"
            )
        return problems, notes

    return look
