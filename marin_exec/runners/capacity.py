"""Whether a cluster could ever hold what a step asks for. What is in use at the moment does not count."""

from collections.abc import Mapping, Sequence

from marin_exec.resources import Resources


def needs_of(resources: Resources) -> dict[str, float]:
    """Returns what one rank needs, by the names that Ray has for it; what is 0 is left out."""
    asked = {
        "CPU": resources.cpus,
        "GPU": resources.gpus,
        "memory": resources.memory_bytes or 0,
        **resources.custom,
    }
    return {name: amount for name, amount in asked.items() if amount}


def place_of(resources: Resources) -> str:
    """Returns in words what a step needs at a time."""
    each = ", ".join(_amount(name, amount) for name, amount in needs_of(resources).items()) or "nothing"
    return f"{each} for each of {resources.ranks} ranks at a time" if resources.ranks > 1 else each


def shortfall(resources: Resources, nodes: Sequence[Mapping[str, float]]) -> str:
    """Returns in words what a step lacks even on an idle cluster; "" if it would have its place.

    Args:
        resources: of the step.
        nodes: what each node has in all, by Ray's names.
    """
    needs = needs_of(resources)
    for name, amount in needs.items():
        most = max((node.get(name, 0) for node in nodes), default=0)
        if most < amount:
            return f"needs {_amount(name, amount)}, and no node of the cluster has more than {_amount(name, most)}"
    if not any(all(node.get(name, 0) >= amount for name, amount in needs.items()) for node in nodes):
        together = ", ".join(_amount(name, amount) for name, amount in needs.items())
        return f"needs {together} on one node, and no node of the cluster has all of that"
    places = sum(_places(needs, node) for node in nodes)
    if places < resources.ranks:
        each = ", ".join(_amount(name, amount) for name, amount in needs.items())
        return f"needs {each} for each of {resources.ranks} ranks, and the cluster has that for {places}"
    return ""


def _places(needs: Mapping[str, float], node: Mapping[str, float]) -> int:
    """Returns how many ranks fit on a node; more than anybody asks for, if they need nothing."""
    return min((int(node.get(name, 0) / amount) for name, amount in needs.items()), default=1_000_000)


def _amount(name: str, amount: float) -> str:
    return f"{amount / 2**30:.3g} GiB of memory" if name == "memory" else f"{amount:g} {name}"
