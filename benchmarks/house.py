"""What keeping house costs on a large store: `make bench-house`. One JSON line a figure; exit 1 if a bar does not hold.

A store of 10,000 finished steps of which the root of one experiment reaches a half, and an output of 100,000 files that nothing
reaches. Times are of one call in a process of its own, with its imports; memory is the most that the process ever had.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from engine import chain_and_wide, fill

from marin_exec import Out, Step, kind
from marin_exec.plan import make_plan
from marin_exec.store import Store, register_root

NUM_STEPS = 10_000
NUM_FILES = 100_000


@dataclass(frozen=True)
class Files:
    number: int


@kind("bench/many-files", version=1)
def many_files(config: Files, out: Out) -> int:
    for folder in range(config.number // 1_000):
        os.makedirs(f"{out.path}/{folder:03d}")
        for n in range(1_000):
            Path(f"{out.path}/{folder:03d}/{n:03d}.txt").write_text("0123456789")
    return config.number


def call(*arguments: str) -> tuple[dict, float, float]:
    """Returns what a verb prints as JSON, its seconds, and its peak memory in MB."""
    program = str(Path(sys.executable).parent / "marin-exec")
    started = time.perf_counter()
    process = subprocess.Popen([program, *arguments, "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, code, usage = os.wait4(process.pid, 0)
    assert code == 0, printed
    return json.loads(printed), time.perf_counter() - started, usage.ru_maxrss / 1024


def main() -> None:
    held: list[bool] = []

    def report(figure: str, value: float, unit: str, bar: float | None) -> None:
        holds = bar is None or value <= bar
        held.append(holds)
        print(
            json.dumps({"figure": figure, "value": round(value, 3), "unit": unit, "bar": bar, "holds": holds}),
            flush=True,
        )

    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(folder)
        chain, *wide = chain_and_wide(NUM_STEPS)
        fill([chain, *wide], store)
        many = Step("many", many_files, Files(NUM_FILES))
        fill([many], store)
        (planned,) = make_plan([many], store).steps.values()
        assert planned.record is not None
        output = store.url(planned.record.output_path)
        plan = make_plan([chain], store)
        register_root(store, "chain", plan.targets, plan.steps)
        of_store = f"10,000 steps and {NUM_FILES:,} files"
        _, seconds, megabytes = call("status", "--prefix", folder)
        report(f"status of {of_store}", seconds, "s", 10)
        _, seconds, _ = call("verify", output, "--prefix", folder)
        report(f"verify {NUM_FILES:,} files by size", seconds, "s", 10)
        _, seconds, _ = call("verify", output, "--checksums", "--prefix", folder)
        report(f"verify {NUM_FILES:,} files by checksum", seconds, "s", 60)
        said, seconds, megabytes = call("gc", "--grace", "0", "--prefix", folder)
        assert len(said["garbage"]) == NUM_STEPS // 2 + 1, len(said["garbage"])
        report(f"gc, dry run, {of_store}", seconds, "s", 30)
        report("memory of that process", megabytes, "MB", 500)
        done, seconds, megabytes = call("gc", "--grace", "0", "--delete", "--prefix", folder)
        assert (
            (done["removed"]["bytes"], done["removed"]["files"])
            == (said["bytes"], said["files"])
            == (10 * NUM_FILES, NUM_FILES)
        )
        report(f"gc that removes half the steps and {NUM_FILES:,} files", seconds, "s", 120)
        report("memory of that process", megabytes, "MB", 500)
        assert not make_plan([chain], store).to_run
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
