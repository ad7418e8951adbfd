"""Whole runs over a store that goes wrong: they end right, or fail and say so, and a plain rerun makes them whole."""

import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty import by_chance, make_faulty, truncate
from inprocess import World

from marin_exec import InputPath, Out, Step, kind
from marin_exec.errors import StoreError
from marin_exec.store import Store

BODIES: Counter[str] = Counter()


@dataclass(frozen=True)
class Config:
    test: str


@dataclass(frozen=True)
class Derived:
    source: InputPath
    number: int  # else equal inputs would be linked rather than computed


@kind("faulty/parts", version=1)
def parts(config: Config, out: Out) -> int:
    BODIES[config.test] += 1
    for number in range(3):
        path = out.file(f"part-{number}.txt")
        with Store.open(out.path).fs.open(path, "wb") as file:
            file.write(b"x" * 1000 * (number + 1))
    out.progress("written")
    out.publish("part-0.txt")
    return 3


@kind("faulty/sizes", version=1)
def sizes(config: Derived, out: Out) -> int:
    files = Store.open(out.path).fs
    total = sum(files.size(path) for path in files.find(config.source))
    with files.open(out.file("total.txt"), "wb") as file:
        file.write(str(total).encode())
    return total


@pytest.fixture(params=["local", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    world = World(tmp_path)
    if request.param == "memory":
        world.store = Store.open(f"memory://{uuid.uuid4().hex}")
    return world


def pipeline(test: str) -> list[Step]:
    first = [Step(f"parts/{n}", parts, Config(f"{test}-{n}")) for n in range(3)]
    return [Step(f"sizes/{n}", sizes, Derived(each, n)) for n, each in enumerate(first)]


@pytest.mark.parametrize("seed", range(6))
def test_run_with_faults_fails_clearly_or_ends_right_and_a_rerun_completes_it(world: World, seed: int) -> None:
    steps = pipeline(f"{seed}-{world.store.prefix}")
    files = make_faulty(world.store)
    for attempt in range(40):
        files.rule = by_chance(1000 * seed + attempt, 0.04)
        try:
            statuses = world.run(*steps)
        except (OSError, StoreError) as error:  # the plan could not be read
            assert "injected" in str(error)
            continue
        failures = [
            each.failure.reason for each in statuses.values() if each.failure is not None and each.record is None
        ]
        for reason in failures:
            assert "injected" in reason or "could not be committed" in reason, reason
        if not failures:
            break
    files.rule = lambda call: None
    assert files.faults
    assert all(status.record is not None for status in world.run(*steps).values())
    assert set(world.actions(*steps).values()) == {"REUSE"}
    for each in world.plan(*steps).steps.values():
        assert each.record is not None and world.store.verify(each.record) == []
        assert each.record.result == (3 if each.step.name.startswith("parts") else 6000)


def test_stale_listings_run_nothing_twice(world: World) -> None:
    steps = pipeline(f"stale-{world.store.prefix}")
    files = make_faulty(world.store)
    world.actions(*steps)  # notes the listings of an empty store
    assert {str(each.state) for each in world.run(*steps).values()} == {"done"}
    before = BODIES.copy()
    files.rule = lambda call: "stale" if call.operation == "names" else None
    assert set(world.actions(*steps).values()) == {"RUN"}, "the listings say that there is nothing"
    assert {str(each.state) for each in world.run(*steps).values()} == {"reused"}
    assert before == BODIES


def test_data_cut_short_after_the_commit_is_a_miss_that_names_the_file(world: World) -> None:
    steps = pipeline(f"cut-{world.store.prefix}")
    world.run(*steps)
    record = world.plan(*steps).steps[next(iter(world.plan(*steps).steps))].record
    assert record is not None
    truncate(world.store, f"{world.store.url(record.output_path)}/part-1.txt", 500)
    first = next(iter(world.plan(*steps, force=()).steps.values()))
    assert "part-1.txt (500 bytes, 2000 recorded)" in first.reason
    assert world.store.verify(record) == [("part-1.txt", "500 bytes, 2000 recorded")]


def test_slow_store_stops_no_heartbeat(world: World) -> None:
    """Calls that take a large part of the lease time: nobody loses a lease for it."""
    steps = pipeline(f"slow-{world.store.prefix}")
    files = make_faulty(world.store)
    chance = by_chance(7, 0.5, ("delay",))
    lock = threading.Lock()

    def rule(call):
        with lock:
            return chance(call)

    files.rule = rule
    statuses = world.run(*steps)
    assert {str(each.state) for each in statuses.values()} == {"done"}
    assert {each.attempts for each in statuses.values()} == {1}
