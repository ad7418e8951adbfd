"""What a plan costs on an object store: `make bench-stores`. One JSON line a figure; exit 1 if a bar does not hold.

Requests are counted where they leave the process, of every client. The servers are on loopback, and the one of S3 is a
slow Python program that answers one request after the other: what counts for a real store is how many requests there
are, and that none waits for another, so `delayed` figures have each answer arrive late by a time that is near a real one.
"""

import contextlib
import http.client
import json
import os
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import fsspec

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "servers"))

import object_stores

from marin_exec import InputPath, Out, Step, kind
from marin_exec.plan import make_plan
from marin_exec.provenance import RunContext
from marin_exec.runners.local import LocalBackend
from marin_exec.runners.scheduler import Scheduler
from marin_exec.store import Store

NUM_STEPS = 200
DELAY_SECONDS = 0.05  # of an answer from a bucket in the same region, for a small object
MOST_REQUESTS_PER_STEP = 3.5  # a head, a record, a listing of the output; and a few for the whole plan
DEEPEST = 100  # late answers may cost a plan the time of so many after one another; all of them would be 600


@dataclass(frozen=True)
class Config:
    number: int
    parents: tuple[InputPath, ...] = ()


@kind("bench/one-file", version=1)
def one_file(config: Config, out: Out) -> int:
    fsspec.filesystem(out.path.partition(":")[0]).pipe_file(out.file("number.txt"), f"{config.number}".encode())
    return config.number


def diamond(layers: int, width: int, num_parents: int = 3) -> list[Step]:
    """Returns the last layer of a layered diamond."""
    layer: list[Step] = []
    for depth in range(layers):
        above = layer
        layer = []
        for n in range(width):
            parents = tuple(above[(n + k) % width] for k in range(num_parents)) if above else ()
            layer.append(Step(f"layer{depth}/{n}", one_file, Config(depth * width + n, parents)))
    return layer


class Requests:
    """Counts the requests of this process, and may have each answer arrive late."""

    def __init__(self) -> None:
        self.count = 0
        self.delay_seconds = 0.0
        self._lock = threading.Lock()
        put, ask = http.client.HTTPConnection.putrequest, aiohttp.ClientSession._request

        def counted_put(connection: Any, *arguments: Any, **options: Any) -> Any:
            self._counted()
            time.sleep(self.delay_seconds)
            return put(connection, *arguments, **options)

        async def counted_ask(session: Any, *arguments: Any, **options: Any) -> Any:
            import asyncio

            self._counted()
            await asyncio.sleep(self.delay_seconds)
            return await ask(session, *arguments, **options)

        http.client.HTTPConnection.putrequest = counted_put
        aiohttp.ClientSession._request = counted_ask

    def _counted(self) -> None:
        with self._lock:
            self.count += 1


@contextlib.contextmanager
def serving(name: str) -> Generator[object_stores.ObjectStoreServer]:
    with {"gcs": object_stores.gcs_server, "s3": object_stores.s3_server}[name]() as server:
        os.environ.update(server.environment)
        yield server


def run_all(steps: list[Step], store: Store) -> None:
    context = RunContext(run_id="bench", experiment="bench", provenance={})
    plan = make_plan(steps, store)
    statuses = Scheduler(plan=plan, store=store, backend=LocalBackend(), context=context).run()
    assert all(status.record is not None for status in statuses.values())


def say(**figure: Any) -> None:
    print(json.dumps(figure), flush=True)


def measure(name: str, prefix: str, requests: Requests) -> bool:
    steps, store = diamond(20, NUM_STEPS // 20), Store.open(prefix)
    before, started = requests.count, time.perf_counter()
    run_all(steps, store)
    cold = time.perf_counter() - started
    cold_requests = (requests.count - before) / NUM_STEPS
    say(
        figure=f"{name}: cold run, requests a step",
        value=round(cold_requests, 2),
        ms_a_step=round(1000 * cold / NUM_STEPS, 1),
    )
    good, at_once = True, 0.0
    for delay in (0.0, DELAY_SECONDS):
        requests.delay_seconds = delay
        seconds = []
        for _ in range(3):
            before, started = requests.count, time.perf_counter()
            plan = make_plan(steps, Store.open(prefix))
            seconds.append(time.perf_counter() - started)
            assert not plan.to_run and len(plan.steps) == NUM_STEPS
        asked, best = (requests.count - before) / NUM_STEPS, min(seconds)
        at_once = at_once or best
        holds = asked <= MOST_REQUESTS_PER_STEP and best <= at_once + DEEPEST * delay
        what = f", answers {1000 * delay:.0f} ms late" if delay else ""
        figure = f"{name}: warm plan of {NUM_STEPS} steps{what}, seconds"
        say(figure=figure, value=round(best, 3), requests_a_step=round(asked, 2), holds=holds)
        good &= holds
    requests.delay_seconds = 0.0
    return good


def main() -> int:
    requests, good = Requests(), True
    for name in ("gcs", "s3"):
        with serving(name) as server:
            good &= measure(name, server.new_prefix(), requests)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
