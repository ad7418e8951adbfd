"""Data curation on a part of the corpora, made again in other ways: every output must have the same bytes.

All steps from the sampled documents to the mixture and the pages are made by a plain run first. Then again: with shards in shuffled
orders; on Ray clusters of 1, 2 and 4 workers; and each stage alone, with its driver killed (kill -9) twice in the middle. The
digest of every output (names, sizes and content of its files, result) is compared with the first run's.

The store is that of the corpora, so that these are fetched and normalised once a machine.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.data._corpora import STORE, normalised
from benchmarks.figures import Figures
from marin_exec.records import Record
from marin_exec.runners.ray import RayBackend
from marin_exec.store import Store

EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments/curation.py"
FRACTION = "0.03"
KILLS = 2
"""Of each stage, before it may end."""
MOST_SECONDS = 3_600
PROGRAM = str(Path(sys.executable).parent / "marin-exec")
_MADE_BEFORE = ("sources/", "documents/")


def environment() -> dict[str, str]:
    # A killed driver's lease is taken over after 15 heartbeats.
    return {**os.environ, "MARIN_PREFIX": str(STORE), "MARIN_HEARTBEAT_SECONDS": "0.2"}


def marin(verb: str, *arguments: str, program: Sequence[str] = (PROGRAM,)) -> str:
    """Returns what a verb prints.

    Raises:
        RuntimeError: it failed; what it said is in the message.
    """
    command = [*program, verb, *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=MOST_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: ...{done.stderr[-2000:]}")
    return done.stdout


def run(*arguments: str, **more: Any) -> None:
    marin("run", str(EXPERIMENT), *arguments, "--fraction", FRACTION, **more)


def made_steps() -> dict[str, Record]:
    """Returns the records of the steps that this is about, by name."""
    steps = json.loads(marin("plan", str(EXPERIMENT), "--json", "--fraction", FRACTION))["steps"]
    store = Store.open(str(STORE))
    found = {each["name"]: store.current(each["digest"]) for each in steps}
    lacking = [name for name, record in found.items() if record is None]
    assert not lacking, f"a run ended well without {lacking}"
    return {name: record for name, record in found.items() if record and not name.startswith(_MADE_BEFORE)}


def differing(before: dict[str, Record], after: dict[str, Record]) -> list[str]:
    """Returns the names of the steps whose output has another digest than before, or which were not made again."""
    assert before.keys() == after.keys()
    return [
        name
        for name, record in before.items()
        if after[name].output_digest != record.output_digest or after[name].attempt == record.attempt
    ]


def start(stage: str) -> subprocess.Popen[bytes]:
    command = [PROGRAM, "run", str(EXPERIMENT), "--until", stage, "--backend", "local"]
    return subprocess.Popen(
        [*command, "--fraction", FRACTION],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def attempts(digest: str) -> int:
    return len({each.name.split("-")[0] for each in STORE.glob(f".marin/steps/{digest}/attempts/*.jsonl")})


def kill_in(stage: str, digest: str, seconds: float, chance: random.Random) -> bool:
    """Starts the stage and kills its driver at a random time in it; returns whether it was not done by then."""
    begun = attempts(digest)
    driver = start(stage)
    try:
        while attempts(digest) == begun and driver.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, seconds))
        alive = driver.poll() is None
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return alive and current_attempt(digest) <= begun


def current_attempt(digest: str) -> int:
    """Returns the number of the newest attempt that was recorded."""
    numbers = [int(each.name.split(".")[0]) for each in STORE.glob(f".marin/steps/{digest}/attempts/*.record.json")]
    return max(numbers, default=0)


def main() -> int:
    figures = Figures()
    chance = random.Random(0)
    normalised()
    run("--backend", "local")
    first = made_steps()
    stages = [name for name in first if not name.startswith("sample/")]
    figures.add("stages", len(stages), "stages")
    sampled = [record.result for name, record in first.items() if name.startswith("sample/")]
    figures.add("documents", sum(each["documents"] for each in sampled if each), "documents")

    of_documents = {name for name, record in first.items() if record.dependencies}  # the others are not made again

    def compare(what: str, names: set[str] = of_documents) -> None:
        after = made_steps()
        different = differing({name: first[name] for name in names}, {name: after[name] for name in names})
        if different:
            print(f"{what}: differ or were not made: {', '.join(different)}", file=sys.stderr)
        figures.add(f"{what}: outputs that differ", len(different), "outputs", at_most=0)

    for seed in (1, 2):
        run(
            "--backend",
            "local",
            "--from",
            "sample/*",
            program=(sys.executable, "-m", "benchmarks.data._shuffled", str(seed)),
        )
        compare(f"shards in shuffled order {seed}")
    for workers in (1, 2, 4):
        cluster = RayBackend("local", num_cpus=workers)
        cluster.start()
        try:
            import ray

            run("--from", "sample/*", "--address", ray.get_runtime_context().gcs_address)
        finally:
            cluster.stop()
        compare(f"{workers} workers on Ray")

    killed = 0
    for stage in stages:
        record = first[stage]
        marin("invalidate", record.digest, "--why", "made again by benchmarks.data.determinism")
        killed += sum(kill_in(stage, record.digest, record.seconds, chance) for _ in range(KILLS))
        run("--backend", "local", "--until", stage)
    figures.add("drivers killed in the middle of a stage", killed, "kills", at_least=len(stages))
    compare("stages killed twice", set(stages))
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
