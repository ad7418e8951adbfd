"""The graph that every engine runs: layers of ten steps, each made from three of the layer above. Standard library only.

A step's value is one more than the sum of its parents' values modulo 97, so an engine that loses an edge ends in other
values. The number of paths grows threefold with each layer: an engine that walks paths instead of steps never ends.
"""

import json
import os
from collections.abc import Iterable

LAYERS = int(os.environ.get("BENCH_LAYERS", "20"))
WIDTH = 10
OFFSETS = (0, 1, 3)


def steps(layers: int = LAYERS) -> list[tuple[int, int]]:
    """Returns (layer, number) of every step, parents first."""
    return [(layer, number) for layer in range(layers) for number in range(WIDTH)]


def parents(layer: int, number: int) -> list[tuple[int, int]]:
    return [(layer - 1, (number + offset) % WIDTH) for offset in OFFSETS] if layer else []


def value(of_parents: Iterable[int]) -> int:
    return 1 + sum(of_parents) % 97


def body_ran() -> None:
    """Leaves one byte in BENCH_COUNT: proof that the body of a step was executed, in whatever process."""
    descriptor = os.open(os.environ["BENCH_COUNT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, b"x")
    finally:
        os.close(descriptor)


def report(last_layer: Iterable[int]) -> None:
    """Prints the values that a run ends in; the harness compares them."""
    print("\nvalues " + json.dumps(list(last_layer)), flush=True)


def expected(layers: int = LAYERS) -> list[int]:
    """Returns the values of the last layer, worked out without any engine."""
    values: dict[tuple[int, int], int] = {}
    for step in steps(layers):
        values[step] = value(values[each] for each in parents(*step))
    return [values[layers - 1, number] for number in range(WIDTH)]
