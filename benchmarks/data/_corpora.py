"""The corpora for benchmarks: fetched, read and normalised once a machine, in ~/.cache/marin-exec/corpora, then reused."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from steps.sources.corpora import documents

STORE = Path.home() / ".cache/marin-exec/corpora"
_EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments/corpora.py"


def normalised(names: Iterable[str] = ()) -> dict[str, str]:
    """Returns the folder of normalised documents of each named source, in the order of the corpora; of all if none is named.

    What is missing is made first, in a process of its own, so that neither its memory nor its time count here.

    Raises:
        ValueError: there is no source of such a name.
        RuntimeError: a package cannot be fetched or read.
    """
    known = list(documents())
    wanted = set(names) or set(known)
    if strangers := sorted(wanted - set(known)):
        raise ValueError(f"no source {strangers}; the corpora are {known}")
    chosen = [name for name in known if name in wanted]
    STORE.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).parent / "marin-exec"
    command = [str(program), "run", str(_EXPERIMENT), "--backend", "local", "--prefix", str(STORE)]
    for name in chosen:
        command += ["--until", f"documents/{name}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"the corpora could not be made: exit {done.returncode}; what failed is said above")
    paths = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    return {name: paths[f"documents/{name}"] for name in chosen}


if __name__ == "__main__":
    for source, path in normalised(sys.argv[1:]).items():
        print(f"{source}\t{path}")
