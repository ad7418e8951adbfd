"""No engine: a digest of the recipe, a look whether its file is there, and an atomic write. With FLOOR_FSYNC=1, synced."""

import hashlib
import json
import os
import sys
from pathlib import Path

from dag import LAYERS, WIDTH, body_ran, parents, report, steps, value

SYNC = os.environ.get("FLOOR_FSYNC") == "1"


def publish(path: Path, result: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w") as file:
        json.dump(result, file)
        if SYNC:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)


def main() -> None:
    state = Path(os.environ["BENCH_STATE"])
    digests: dict[tuple[int, int], str] = {}
    values: dict[tuple[int, int], int] = {}
    for step in steps():
        recipe = json.dumps([*step, [digests[each] for each in parents(*step)]])
        digests[step] = hashlib.sha256(recipe.encode()).hexdigest()
        path = state / f"step-{digests[step][:16]}" / "value.json"
        if not path.exists():
            body_ran()
            publish(path, value(values[each] for each in parents(*step)))
        values[step] = json.loads(path.read_text())
    report(values[LAYERS - 1, number] for number in range(WIDTH))


if __name__ == "__main__" and "--start-only" not in sys.argv:
    main()
