"""snakemake: one rule, one shell and one file a step, two cores."""

import os
import subprocess
import sys
from pathlib import Path

from dag import LAYERS, WIDTH, report

PROGRAM = Path(sys.executable).with_name("snakemake")


def main() -> None:
    state = Path(os.environ["BENCH_STATE"])
    environment = {**os.environ, "XDG_CACHE_HOME": str(state / "xdg")}
    if "--start-only" in sys.argv:
        subprocess.run([PROGRAM, "--version"], env=environment, check=True, stdout=subprocess.DEVNULL)
        return
    rules = Path(__file__).with_name("Snakefile")
    command = [PROGRAM, "-s", rules, "-d", state, "--cores", "2", "--quiet", "all"]
    subprocess.run(command, env=environment, check=True)
    report(int((state / f"{LAYERS - 1}_{number}.txt").read_text()) for number in range(WIDTH))


if __name__ == "__main__":
    main()
