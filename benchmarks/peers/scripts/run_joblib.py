"""joblib.Memory: calls remembered by the digest of their arguments and the text of the function, in one process."""

import os
import sys

from dag import LAYERS, WIDTH, body_ran, parents, report, steps, value
from joblib import Memory

memory = Memory(os.environ["BENCH_STATE"], verbose=0)


@memory.cache
def step(layer: int, number: int, of_parents: list[int]) -> int:
    body_ran()
    return value(of_parents)


if __name__ == "__main__" and "--start-only" not in sys.argv:
    values: dict[tuple[int, int], int] = {}
    for each in steps():
        values[each] = step(*each, [values[parent] for parent in parents(*each)])
    report(values[LAYERS - 1, number] for number in range(WIDTH))
