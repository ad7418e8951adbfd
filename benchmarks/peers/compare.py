"""This engine beside others, on one graph of 200 steps: part of `make bench-engine`.

    python -m benchmarks.peers.compare [ENGINE ...]     a JSON line a row, then the table
    python -m benchmarks.peers.compare --save           the same of all, kept in results.json and put into the README

Exit code 1 if a bar does not hold, or this engine's own row could not be measured.
"""

import argparse
import dataclasses
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.bounded import Failed
from benchmarks.peers.engines import ENGINES, FLOORS, OURS, Engine, environment_of
from benchmarks.peers.measure import Unproved, measure
from benchmarks.peers.table import table, with_table

RESULTS = Path(__file__).with_name("results.json")
README = Path(__file__).parents[2] / "README.md"

MOST_WARM_MS = 1.0
MOST_FILES = 4
"""A step, besides its data."""


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns this engine's figures, as the lines of `benchmarks/engine.py`, which has the bar of a cold step.

    A whole command imports more than `--help` does, once; here that counts as part of its 200 steps.
    """
    by_name = {row["engine"]: row for row in rows}
    ours, floor = by_name[OURS], by_name.get(FLOORS[1])
    figures: list[tuple[str, float, str, float | None]] = [
        ("warm step over start-up, whole command", ours["warm_ms"], "ms/step", MOST_WARM_MS),
        ("small files a step", ours["files"] / ours["num_steps"] - 1, "files", MOST_FILES),
    ]
    if floor is not None:
        over = ours["cold_ms"] - floor["cold_ms"]
        figures.append(("cold step over the same work with fsync, whole command", over, "ms/step", None))
    peers = [row for row in rows if row["rests_on"] == "recipe" and row["engine"] not in (OURS, *FLOORS)]
    if peers:
        fastest = min(peers, key=lambda row: row["warm_seconds"])
        what = f"warm run over that of {fastest['engine']}, the fastest peer that knows the recipe"
        figures.append((what, ours["warm_seconds"] / fastest["warm_seconds"], "ratio", None))
    return [
        {"figure": name, "value": round(value, 3), "unit": unit, "bar": bar, "holds": bar is None or value <= bar}
        for name, value, unit, bar in figures
    ]


def machine() -> str:
    """Returns the machine in words: processor, cores, memory, kernel, Python, and how busy it was before."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    load = f"load {os.getloadavg()[1]:.1f} before the start"
    return f"{os.cpu_count()} cores of {model}, {memory_gib:.0f} GiB, {system}, {load}"


def rows_of(engines: list[Engine], tries: int) -> list[dict[str, Any]]:
    """Measures engines one after the other; prints a line for each, or why it has no row."""
    rows = []
    for engine in engines:
        if engine.requirements and not (environment_of(engine) / "installed").exists():
            print(f"{engine.name}: not installed (make bench-peers-setup); it has no row", file=sys.stderr)
            continue
        try:
            row = dataclasses.asdict(measure(engine, tries))
        except (Unproved, Failed) as error:
            print(f"{engine.name}: has no row: {error}", file=sys.stderr)
            continue
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    names = [engine.name for engine in ENGINES]
    parser = argparse.ArgumentParser(description="This engine beside others, on one graph of 200 steps.")
    parser.add_argument("engine", nargs="*", help=f"by default all: {', '.join(names)}")
    parser.add_argument("--tries", type=int, default=5, help="times are the best of so many")
    parser.add_argument(
        "--save", action="store_true", help="keep the rows in results.json and put the table into the README"
    )
    options = parser.parse_args()
    unknown = set(options.engine) - set(names)
    if unknown or (options.save and options.engine):
        parser.error(f"no engine is named {sorted(unknown)}" if unknown else "--save keeps a table of all engines")
    before = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    rows = rows_of(
        [each for each in ENGINES if not options.engine or each.name in {*options.engine, OURS}], options.tries
    )
    if not any(row["engine"] == OURS for row in rows):
        sys.exit(f"error: {OURS} itself has no row")
    measured = {**before, "rows": rows}
    figures = bars(rows)
    for line in figures:
        print(json.dumps(line))
    print(f"\n{measured['date']}, {measured['machine']}\n\n{table(rows)}")
    if options.save:
        RESULTS.write_text(json.dumps(measured, indent=1) + "\n")
        README.write_text(with_table(README.read_text(), measured))
    sys.exit(not all(line["holds"] for line in figures))


if __name__ == "__main__":
    main()
