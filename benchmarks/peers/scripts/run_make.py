"""GNU make, two jobs: one shell and one file a step, compared by modification time."""

import os
import subprocess
import sys
from pathlib import Path

from dag import LAYERS, WIDTH, parents, report, steps


def makefile() -> str:
    targets = " ".join(f"{LAYERS - 1}_{number}" for number in range(WIDTH))
    lines = [f"all: {targets}"]
    for layer, number in steps():
        above = [f"{a}_{b}" for a, b in parents(layer, number)]
        total = " + ".join(f"$$(cat {each})" for each in above) or "0"
        lines.append(f"{layer}_{number}: {' '.join(above)}")
        lines.append(f"\t@printf x >> $$BENCH_COUNT; echo $$((1 + ({total}) % 97)) > $@")
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(os.environ["BENCH_STATE"])
    if not (folder / "Makefile").exists():
        (folder / "Makefile").write_text(makefile())
    subprocess.run(["make", "-s", "-j2", "all"], cwd=folder, check=True)
    report(int((folder / f"{LAYERS - 1}_{number}").read_text()) for number in range(WIDTH))


if __name__ == "__main__":
    if "--start-only" in sys.argv:
        subprocess.run(["make", "--version"], check=True, stdout=subprocess.DEVNULL)
    else:
        main()
