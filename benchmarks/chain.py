"""The figures of the whole chain: one JSON line each, `{"figure", "value", "unit", "bar", "holds"}`; exit code 1 if a bar fails.

    make bench-chain                                   a cold run of the quickstart in a fresh store, then everything
    python benchmarks/chain.py --setup                 the cold run as `make quickstart` in a fresh clone, set-up timed too
    python benchmarks/chain.py --store PATH            over a store in which the quickstart has run; no cold figures
    python benchmarks/chain.py --store PATH --quick    without what trains again (kills, two drivers), and without tests
    python benchmarks/chain.py --tests                 and the time of `make test`

A store that is given is only read (the experiment is registered there if it was not); what has to be killed is killed in
a copy beside it (hard links), removed at the end.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chain_figures import Figure, at_least, below, data, digests, equal, ladder, lineage, records, told
from chain_runs import PROJECT, RUN_SECONDS, Finished, Runs, call, downstream
from chain_tests import held_by_tests, whole_suite

QUICKSTART = "experiments/quickstart.py"
CONTAINMENT = re.compile(r"(containment\s*=\s*)0\.9\b", re.IGNORECASE)
"""The line of the experiment that states the threshold."""
ENTRY = """
import sys
import marin_exec.cli as cli
print(cli.__file__, file=sys.stderr)
cli.main()
"""
"""Says which checkout's code it is, and does what the script marin-exec does."""
HERO_FILES = ("metrics.jsonl", "evals.jsonl", "run.json")


def cold(folder: Path, *, setup: bool) -> tuple[list[Figure], Runs]:
    """Returns the times of a cold run, and the runs over its store."""
    if not setup:
        runs = Runs(store=folder / "store", experiment=PROJECT / QUICKSTART)
        return [below("cold run of the quickstart, without set-up", runs.run().seconds, "s", 900)], runs
    clone = folder / "clone"
    call(["git", "clone", "-q", "--no-hardlinks", str(PROJECT), str(clone)], timeout=300)
    prepared = call(["make", "setup"], timeout=RUN_SECONDS, cwd=clone)
    made = call(["make", "quickstart"], timeout=RUN_SECONDS, cwd=clone)
    whole = below("set-up and `make quickstart` on a fresh clone", prepared.seconds + made.seconds, "s", 900)
    runs = Runs(store=clone / "store", experiment=clone / QUICKSTART)
    return [told("set-up of a fresh clone", prepared.seconds, "s"), whole], runs


def warm(runs: Runs, folder: Path) -> Iterator[Figure]:
    """The same command again, here and from another checkout of the repository."""
    before, steps = runs.tree(), len(runs.steps())
    timed = runs.run()
    imports = runs.run(env={"PYTHONPROFILEIMPORTTIME": "1"})
    yield below("same command again", timed.seconds, "s", 10)
    yield equal("steps that it reused", _reused(timed), "steps", steps)
    yield equal("imports of ray or jax in it", len(_imported(imports) & {"ray", "jax"}), "modules", 0)
    checkout = folder / "checkout"
    for part in ("marin_exec", "steps", "experiments"):
        shutil.copytree(PROJECT / part, checkout / part, ignore=shutil.ignore_patterns("__pycache__"))
    inside = runs.experiment.is_relative_to(PROJECT)
    experiment = checkout / runs.experiment.relative_to(PROJECT) if inside else runs.experiment
    other = call(
        [sys.executable, "-c", ENTRY, "run", str(experiment), "--prefix", str(runs.store)],
        timeout=RUN_SECONDS,
        env={"PYTHONPATH": str(checkout)},
        cwd=checkout,
    )
    if str(checkout) not in other.stderr:
        raise RuntimeError(f"the run in {checkout} was of another checkout: {other.stderr[-500:]}")
    yield below("same command from another checkout", other.seconds, "s", 10)
    yield equal("steps that it reused from there", _reused(other), "steps", steps)
    changed = len({path for path, _ in before.items() ^ runs.tree().items()})
    yield equal("files that these runs wrote or touched", changed, "files", 0)


def _reused(finished: Finished) -> int:
    """Returns the number of reused steps of a run that had nothing to run; 0 if it had."""
    found = re.search(r"(\d+) REUSE; nothing to run", finished.stderr)
    return int(found[1]) if found else 0


def _imported(finished: Finished) -> set[str]:
    lines = [line for line in finished.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def changed_containment(runs: Runs, folder: Path) -> Iterator[Figure]:
    """What a plan says when the containment threshold is 0.8 instead of 0.9."""
    source, changes = CONTAINMENT.subn(r"\g<1>0.8", runs.experiment.read_text())
    if changes != 1:
        raise RuntimeError(
            f"{runs.experiment} states a containment of 0.9 {changes} times; once is needed to change it"
        )
    edited = folder / "edited" / runs.experiment.name
    edited.parent.mkdir()
    edited.write_text(source)
    expected = downstream(runs.steps(), "dedup/fuzzy")
    planned = Runs(store=runs.store, experiment=edited).steps()
    would_run = {name for name, step in planned.items() if step["action"] != "REUSE"}
    cause = ["dedup/fuzzy: config.containment 0.9 -> 0.8"]
    yield told("steps that a changed containment reruns", len(would_run), "steps")
    yield equal("of them not downstream, or missing", len(would_run ^ expected), "steps", 0)
    yield equal("of them with another root cause", sum(planned[n]["causes"] != cause for n in would_run), "steps", 0)


def killed_in_fuzzy(runs: Runs, folder: Path) -> Iterator[Figure]:
    """Signal 9 to the driver between two shards of fuzzy deduplication, then the same command."""
    original = runs.record(runs.steps()["dedup/fuzzy"]["digest"])
    copy = runs.copy_without({"dedup/fuzzy"}, folder / "fuzzy")
    digest, command = original["digest"], ("--until", "dedup/fuzzy")
    copy.killed_when(lambda: copy.pieces(digest, "shard") > 0, folder / "fuzzy.log", *command)
    committed, total = copy.pieces(digest, "shard"), original["pieces"]["made"]
    copy.run(*command)
    record = copy.record(digest)
    yield told(f"shards of fuzzy dedup committed when it was killed, of {total}", committed, "shards")
    yield at_least("of them kept", record["pieces"]["taken_up"], "shards", committed)
    same = record["output_digest"] == original["output_digest"] and record["files"] == original["files"]
    yield equal("fuzzy dedup, killed and resumed: equal to the undisturbed run", str(same), "files and result", "True")
    shutil.rmtree(copy.store)


def killed_in_hero(runs: Runs, folder: Path) -> Iterator[Figure]:
    """Signal 9 to the driver after the hero's first checkpoint; then two drivers at once go on with it."""
    steps = runs.steps()
    original = runs.record(steps["hero"]["digest"])
    again = downstream(steps, "hero")
    copy = runs.copy_without(again, folder / "hero")
    digest, log = original["digest"], folder / "hero.log"
    copy.killed_when(lambda: copy.pieces(digest, "milestone") > 0, log)
    copy.two_drivers(log)
    record = copy.record(digest)
    yield at_least(
        "updates that the resumed hero did not repeat", record["measured"]["resumed_from_step"], "updates", 1
    )
    one, other = runs.store / original["output_path"], copy.store / record["output_path"]
    described = [f"{name}/checkpoint.json" for name in original["milestones"]]
    different = [name for name in (*HERO_FILES, *described) if (one / name).read_bytes() != (other / name).read_bytes()]
    yield equal("losses and arrays of the resumed hero that differ", len(different), "files", 0)
    same = record["output_digest"] == original["output_digest"]
    yield equal("hero, killed and resumed: same output digest", str(same), "digest", "True")
    attempts = {name: copy.attempts(steps[name]["digest"]) - (name == "hero") for name in again}
    yield equal("most attempts at a step by two drivers at once", max(attempts.values()), "attempts", 1)
    shutil.rmtree(copy.store)


def figures(arguments: argparse.Namespace, folder: Path) -> Iterator[Figure]:
    if arguments.store is None:
        times, runs = cold(folder, setup=arguments.setup)
        yield from times
    else:
        runs = Runs(store=arguments.store.resolve(), experiment=arguments.experiment.resolve())
        runs.run("--max-runs", "0")  # it has run there, and its root is registered
    found = records(runs)
    yield from ladder(found)
    yield from data(found)
    yield from lineage(runs, found)
    yield from warm(runs, folder)
    yield from changed_containment(runs, folder)
    yield from digests()
    if not arguments.quick:
        yield from killed_in_fuzzy(runs, folder)
        yield from killed_in_hero(runs, folder)
        yield from held_by_tests()
    if arguments.tests:
        yield from whole_suite()


def main() -> int:
    parser = argparse.ArgumentParser(description="Figures of the whole chain, one JSON line each.")
    parser.add_argument("--store", type=Path, help="a store in which the experiment has run; leaves the cold run out")
    parser.add_argument("--experiment", type=Path, default=PROJECT / QUICKSTART, help="the file that ran in --store")
    parser.add_argument("--setup", action="store_true", help="time set-up too: `make quickstart` in a fresh clone")
    parser.add_argument("--quick", action="store_true", help="leave out what trains again, and tests")
    parser.add_argument("--tests", action="store_true", help="time `make test` too")
    arguments = parser.parse_args()
    beside = arguments.store.resolve().parent if arguments.store else None  # hard links do not cross filesystems
    folder = Path(tempfile.mkdtemp(prefix="bench-chain-", dir=beside))
    held = True
    try:
        for figure in figures(arguments, folder):
            print(figure.line(), flush=True)
            held = held and figure.holds is not False
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"error: {error}", file=sys.stderr)
        held = False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
