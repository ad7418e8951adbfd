"""Runs that are killed, and what becomes of them: one JSON line a figure, exit code 1 if a bar fails.

    make bench-faults                       the whole campaign
    make bench-faults-short                 the same in two minutes: fewer kills, fewer drivers
    python benchmarks/faults.py --only s3   one part: local, gcs, s3, ray, drivers, takeover

A case is: a run in a fresh store, `kill -9`, a look at what the store serves, one plain run, and a comparison of all
outputs (names, bytes, output digests) with those of a run that nobody disturbed. The lease time is 1 s. Kills are at
every moment (each call of a store and of its file system, before and after its effect; each write of data, before, in
the middle and after), and at random times. The object stores are servers on loopback: `make servers` installs them, and
without them their parts fail.
"""

import argparse
import contextlib
import functools
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chain_figures import Figure, at_least, below, equal, told
from faults_cases import (
    EXPERIMENT,
    HEARTBEAT_SECONDS,
    LEASE_SECONDS,
    RUN_SECONDS,
    Case,
    Place,
    all_of,
    ask,
    fork,
    outputs,
    run,
    undisturbed,
    warm_up,
)

PROGRAM = Path(sys.executable).parent / "marin-exec"
SEED = 20261201
SERVER_IN_FLIGHT = (
    4  # the servers are slow Python programs; a store that answers after a second costs leases of a second
)
WIDTH = 10


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of the campaign is run."""

    every: dict[str, int]
    """By place: each how manyth moment of the five-step run is a kill."""
    random: dict[str, int]
    """By place: how many kills at random times."""
    on_ray: int
    drivers: int
    layers: int
    takeovers: int
    in_flight: int


WHOLE = Scale(
    every={"local": 1, "gcs": 1, "s3": 1},
    random={"local": 300, "gcs": 100, "s3": 100},
    on_ray=30,
    drivers=10,
    layers=20,
    takeovers=10,
    in_flight=12,
)
SHORT = Scale(
    every={"local": 6, "gcs": 24, "s3": 24},
    random={"local": 12, "gcs": 4, "s3": 4},
    on_ray=2,
    drivers=4,
    layers=4,
    takeovers=2,
    in_flight=12,
)


def kills(place: Place, scale: Scale) -> Iterator[Figure]:
    """Kills at the moments of a run, and at random times."""
    reference, moments, seconds = undisturbed(place)
    yield told(f"{place.name}: moments of a five-step run", moments, "moments")
    in_flight = scale.in_flight if place.name == "local" else SERVER_IN_FLIGHT
    chosen = range(1, moments + 1, scale.every[place.name])
    cases = [Case(place, reference, at=at) for at in chosen]
    yield from judged(f"{place.name}: kill at a moment", all_of(cases, in_flight), len(chosen))
    times = random.Random(SEED)
    count = scale.random[place.name]
    cases = [Case(place, reference, after_seconds=times.uniform(0.02, seconds)) for _ in range(count)]
    yield from judged(f"{place.name}: kill at a random time", all_of(cases, in_flight), count)


def judged(what: str, results: Iterable[dict[str, Any] | None], wanted: int) -> Iterator[Figure]:
    """Figures of cases; what went wrong is told on stderr. A run that was over before its kill is no kill."""
    killed = half = failed = 0
    seconds = [0.0]
    for result in results:
        if result is None or result["problem"] or result["half"]:
            print(
                f"{what}: {result}" if result is None else f"{what}: {result['problem']}", file=sys.stderr, flush=True
            )
        killed += result is not None and result["killed"]
        half += result is None or result["half"]
        failed += result is None or bool(result["problem"])
        seconds.append(result["seconds"] if result else 0.0)
    yield at_least(what, killed, "kills", 0.9 * wanted)
    yield equal(f"{what}: half outputs served", half, "stores", 0)
    yield equal(f"{what}: plain rerun did not give equal outputs, or needed a hand", failed, "stores", 0)
    yield told(f"{what}: longest rerun, the wait for the lease included", round(max(seconds), 1), "s")


# -- on Ray ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RayCase:
    """A run on a cluster of which the driver, or the process of a step or shard, is killed."""

    folder: Path
    environment: dict[str, str]
    reference: dict[str, Any]
    victim: str
    after_seconds: float

    def __call__(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            prefix, trace, log = f"{folder}/store", Path(folder, "trace"), Path(folder, "log")
            command = [str(PROGRAM), "run", str(EXPERIMENT), "--prefix", prefix]
            command += ["--trace", str(trace), "--seconds", "0.1"]
            with open(log, "ab") as said:
                start = functools.partial(subprocess.Popen, command, env=self.environment, stdout=said, stderr=said)
                driver = start()
                killed = self._kill(driver, trace)
                driver.wait(RUN_SECONDS)
                then = ask(lambda: outputs(prefix), log)
                started = time.monotonic()
                rerun = start().wait(RUN_SECONDS)
            seconds = time.monotonic() - started
            now = ask(lambda: outputs(prefix), log)
            half = then is None or any(self.reference.get(name) != value for name, value in then.items())
            problem = "" if rerun == 0 and now == self.reference else f"exit {rerun} after a kill of the {self.victim}"
            if half or problem:
                problem += "\n" + log.read_text()[-6000:]
            return {"killed": killed, "half": half, "problem": problem, "seconds": seconds}

    def _kill(self, driver: subprocess.Popen[bytes], trace: Path) -> bool:
        deadline = time.monotonic() + RUN_SECONDS
        while not (trace.exists() and trace.read_text()):
            if driver.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        time.sleep(self.after_seconds)
        pid = driver.pid if self.victim == "driver" else int(trace.read_text().splitlines()[-1].split()[1])
        if driver.poll() is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False


def on_ray(folder: Path, place: Place, scale: Scale) -> Iterator[Figure]:
    """Kills of drivers and workers on one cluster that outlives them."""
    from loopback_cluster import LoopbackCluster

    reference, _, _ = undisturbed(place)
    times = random.Random(SEED)
    with LoopbackCluster(head_cpus=8) as cluster:
        environment = {**os.environ, **cluster.driver_environment(), "RAY_ADDRESS": cluster.address}
        environment["MARIN_HEARTBEAT_SECONDS"] = str(HEARTBEAT_SECONDS)
        cases = [
            RayCase(folder, environment, reference, victim, times.uniform(0.0, 1.5))
            for victim in itertools.islice(itertools.cycle(("driver", "worker")), scale.on_ray)
        ]
        yield from judged("ray: kill of driver or worker at a random time", all_of(cases, 3), scale.on_ray)


# -- several drivers -------------------------------------------------------------------------------------------------


def drivers_at_once(place: Place, scale: Scale) -> Iterator[Figure]:
    """Drivers that start together on many steps."""
    with tempfile.TemporaryDirectory() as folder:
        prefix, trace = place.new_prefix(), Path(folder, "trace")

        def drive() -> int:
            return run(prefix, trace, "--layers", str(scale.layers))

        started = time.monotonic()
        children = [fork(drive, Path(folder, f"log-{n}")) for n in range(scale.drivers)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        ran = Counter(line.split()[0] for line in trace.read_text().splitlines())
        steps, what = scale.layers * WIDTH, f"{scale.drivers} drivers at once on {scale.layers * WIDTH} steps"
        for n, code in enumerate(codes):
            if code:
                print(f"{what}: {Path(folder, f'log-{n}').read_text()[-3000:]}", file=sys.stderr)
        yield equal(f"{what}: bodies that ran exactly once", sum(count == 1 for count in ran.values()), "steps", steps)
        yield equal(f"{what}: executions", sum(ran.values()), "executions", steps)
        yield equal(f"{what}: drivers that did not exit 0", sum(code != 0 for code in codes), "drivers", 0)
        yield told(f"{what}: all together", round(time.monotonic() - started, 1), "s")


def takeovers(place: Place, scale: Scale) -> Iterator[Figure]:
    """How long after a kill another driver, which waits already or comes then, begins the step."""
    for waits in (True, False):
        times = [time_of_takeover(place, waits) for _ in range(scale.takeovers)]
        who = "a driver that waits" if waits else "a driver started then"
        yield below(f"take-over of a killed driver's step by {who}, longest", max(times), "lease times", 2)
        yield told(f"take-over of a killed driver's step by {who}, median", statistics.median(times), "lease times")


def time_of_takeover(place: Place, waits: bool) -> float:
    """Returns lease times from the kill (or the second driver's plan, if it starts then) to the start of the step's body."""
    with tempfile.TemporaryDirectory() as folder:
        prefix, trace, log = place.new_prefix(), Path(folder, "trace"), Path(folder, "log")

        def drive(seconds: str) -> Callable[[], int]:
            return lambda: run(prefix, trace, "--seconds", seconds)

        def until(holds: Callable[[], bool]) -> None:
            deadline = time.monotonic() + RUN_SECONDS
            while not holds():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.002)

        first = fork(drive("60"), Path(folder, "first"))
        until(lambda: trace.exists() and "source" in trace.read_text())
        second = 0
        if waits:
            second = fork(drive("0"), log)
            until(lambda: log.exists() and "wait    source" in log.read_text())
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        killed = time.monotonic()
        if not waits:
            second = fork(drive("0"), log)
            until(lambda: log.exists() and "wait    source" in log.read_text())
            killed = time.monotonic()
        code = os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])
        assert code == 0, log.read_text()
        begun = [float(line.split()[2]) for line in trace.read_text().splitlines() if line.startswith("source ")]
        return round((begun[1] - killed) / LEASE_SECONDS, 2)


# -- all of it -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def object_store(name: str) -> Iterator[Place]:
    """Runs a server in a child, because its set-up makes threads, which must not be forked along."""
    reading, writing = os.pipe()
    holding, letting_go = os.pipe()

    def serve() -> None:
        import object_stores

        os.close(letting_go)
        with {"gcs": object_stores.gcs_server, "s3": object_stores.s3_server}[name]() as server:
            os.write(writing, json.dumps([server.scheme, dict(server.environment)]).encode())
            os.close(writing)
            os.read(holding, 1)  # ends when the parent lets go, or is gone

    child = fork(serve)
    os.close(writing)
    os.close(holding)
    with os.fdopen(reading) as file:
        said = file.read()
    try:
        if not said:
            raise RuntimeError(f"the {name} server did not start; `make servers` installs it")
        import object_stores

        scheme, environment = json.loads(said)
        server = object_stores.ObjectStoreServer(scheme, "")
        yield Place(name, server.new_prefix, environment)
    finally:
        os.close(letting_go)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def campaign(folder: Path, scale: Scale, parts: list[str]) -> Iterator[Figure]:
    numbers = itertools.count()
    local = Place("local", lambda: f"{folder}/stores/{os.getpid()}-{next(numbers)}", {})
    if "local" in parts:
        yield from kills(local, scale)
    for name in ("gcs", "s3"):
        if name in parts:
            with object_store(name) as place:
                yield from kills(place, scale)
    if "ray" in parts:
        yield from on_ray(folder, local, scale)
    if "drivers" in parts:
        yield from drivers_at_once(local, scale)
    if "takeover" in parts:
        yield from takeovers(local, scale)


def main() -> None:
    parts = ["local", "gcs", "s3", "ray", "drivers", "takeover"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="fewer kills, fewer drivers: two minutes")
    parser.add_argument("--only", action="append", choices=parts, help="one part; may be given several times")
    given = parser.parse_args()
    project = Path(__file__).resolve().parents[1]
    sys.path += [str(project / "tests" / each) for each in ("servers", "clusters")]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    warm_up()
    holds = True
    with tempfile.TemporaryDirectory() as folder:
        for figure in campaign(Path(folder), SHORT if given.short else WHOLE, given.only or parts):
            print(figure.line(), flush=True)
            holds = holds and figure.holds is not False
    sys.exit(not holds)


if __name__ == "__main__":
    main()
