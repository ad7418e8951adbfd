"""Who runs a step when several could: what was done meanwhile is seen, and what others hold blocks nothing else."""

import dataclasses
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from inprocess import FAST, ThreadBackend, World
from ray import cloudpickle

from marin_exec import InputPath, Out, Step, kind, runtime
from marin_exec.runners.ray import RayBackend
from marin_exec.runners.state import State, Timing
from marin_exec.store import LEASE_HEARTBEATS, StalenessWatch, claim

DEADLINE = 60.0
PATIENT = Timing(heartbeat=5, lease=30, poll=0.02)
"""For what counts attempts: on a busy machine the lease of a fast one may be lost, and there is one more."""
RUNS: dict[str, Counter] = {}


@dataclass(frozen=True, kw_only=True)
class WorkConfig:
    number: int
    test: Annotated[str, runtime]


@kind("who-runs/work", version=1)
def work(config: WorkConfig, out: Out) -> int:
    RUNS.setdefault(config.test, Counter())[config.number] += 1
    return config.number


@dataclass(frozen=True, kw_only=True)
class ManyConfig:
    count: int


@dataclass(frozen=True, kw_only=True)
class UseConfig:
    source: InputPath


@kind("who-runs/many", version=1)
def write_many(config: ManyConfig, out: Out) -> None:
    for number in range(config.count):
        Path(out.file(f"{number:06d}.txt")).write_text(str(number))


@kind("who-runs/use", version=1)
def use(config: UseConfig, out: Out) -> int:
    return len(list(Path(config.source).iterdir()))


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def steps(test: str, count: int) -> list[Step]:
    return [Step(f"work/{n}", work, WorkConfig(number=n, test=test)) for n in range(count)]


def test_step_done_after_the_plan_was_made_is_seen_before_it_is_run(world, request):
    """The plan says RUN; another driver has done it before its turn comes."""
    test = request.node.name
    late = world.plan(*steps(test, 3))
    world.run(*steps(test, 3))
    statuses = world.scheduler(late).run()
    assert {each.state for each in statuses.values()} == {State.REUSED}
    assert set(RUNS[test].values()) == {1}


def test_steps_that_others_hold_block_no_other_step(world, request):
    """More of them than attempts fit at a time: whoever waits takes no place."""
    test = request.node.name
    plan = world.plan(*steps(test, ThreadBackend.capacity + 5))
    held = list(plan.steps)[: ThreadBackend.capacity + 2]
    leases = [claim(world.store, digest, None, heartbeat_seconds=DEADLINE) for digest in held]
    scheduler = world.scheduler(plan)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    deadline = time.monotonic() + DEADLINE
    free = [digest for digest in plan.steps if digest not in held]
    while not all(digest in scheduler.statuses and scheduler.statuses[digest].record for digest in free):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert {scheduler.statuses[digest].state for digest in held} == {State.WAITING}
    for lease in leases:
        assert lease is not None
        lease.release("over")
    thread.join(DEADLINE)
    assert {str(each.state) for each in scheduler.statuses.values()} == {"done"}
    assert set(RUNS[test].values()) == {1}


def test_submit_that_takes_longer_than_the_lease_keeps_it(world, request):
    """As with a cluster that has to grow first: heartbeats begin with the claim."""
    test, backend = request.node.name, ThreadBackend()
    submit, beats = backend.submit, []

    def slow_submit(task: Any) -> str:
        watch, until = StalenessWatch(FAST.lease, FAST.heartbeat), time.monotonic() + 4 * FAST.lease
        while time.monotonic() < until:
            head = world.store.head(task.digest)
            assert head is not None and not watch.is_stale(task.digest, head.data)
            beats.append(head.data.beat)
            time.sleep(FAST.heartbeat / 5)
        return submit(task)

    backend.submit = slow_submit
    (status,) = world.scheduler(world.plan(*steps(test, 1)), backend).run().values()
    assert status.state is State.DONE and status.record is not None and status.record.attempt == 1
    assert len(set(beats)) > 3


def test_attempts_in_flight_are_bounded_however_many_steps_are_ready(world, request):
    """Ray stalls with too many tasks at once; and each attempt holds a lease that others may be waiting for."""
    test, backend = request.node.name, ThreadBackend()
    submit, finished, in_flight, most = backend.submit, backend.finished, 0, 0

    def counted_submit(task: Any) -> str:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        return submit(task)

    def counted_finished(timeout_seconds: float) -> list[tuple[str, Any]]:
        nonlocal in_flight
        found = finished(timeout_seconds)
        in_flight -= len(found)
        return found

    backend.submit, backend.finished = counted_submit, counted_finished
    statuses = world.scheduler(world.plan(*steps(test, 60)), backend, timing=PATIENT).run()
    assert {each.state for each in statuses.values()} == {State.DONE} and most == ThreadBackend.capacity
    assert RayBackend.capacity <= 1000


def test_task_is_small_however_much_its_inputs_hold(world):
    """Inputs travel as paths: what they hold, and what their records say of it, crosses no driver."""
    sizes = []
    for count in (1, 2_000):
        backend = ThreadBackend()
        many = Step(f"many/{count}", write_many, ManyConfig(count=count))
        world.scheduler(world.plan(Step(f"uses/{count}", use, UseConfig(source=many))), backend, timing=PATIENT).run()
        assert backend.submitted[1].step_name == f"uses/{count}"
        sizes.append(len(cloudpickle.dumps(dataclasses.replace(backend.submitted[1], fn=print))))
    assert sizes[1] - sizes[0] < 50 and sizes[1] < 5_000


def test_submit_that_raises_leaves_no_lease_behind(world, request):
    def refuse(task: Any) -> str:
        raise RuntimeError("no room")

    backend = ThreadBackend()
    backend.submit = refuse
    (status,) = world.scheduler(world.plan(*steps(request.node.name, 1)), backend).run().values()
    assert status.state is State.FAILED and status.failure is not None and "no room" in status.failure.reason
    head = world.store.head(status.planned.digest)
    assert head is not None and head.data.state == "free" and "no room" in head.data.note


def test_default_timing_outlives_several_lost_renewals(monkeypatch):
    monkeypatch.delenv("MARIN_HEARTBEAT_SECONDS", raising=False)
    for timing in (Timing(), Timing.from_environment()):
        assert timing.heartbeat > 0 and timing.lease == LEASE_HEARTBEATS * timing.heartbeat
        assert timing.poll <= timing.heartbeat and timing.lease >= 10
        StalenessWatch(timing.lease, timing.heartbeat)
