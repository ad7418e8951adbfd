"""A lease that is lost, or cannot be renewed, stops its task at once; a store that does not answer for a while costs no run."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from engine import EXPERIMENTS, Engine
from inprocess import ThreadBackend, World
from waiting import wait_until

from marin_exec import Out, Step, kind, runtime
from marin_exec.runners.state import State, Timing
from marin_exec.store import Store, claim
from marin_exec.store.local import LocalFiles

DEADLINE = 60.0


@dataclass
class Stage:
    """What the bodies of one test share, by its name."""

    began: list[float] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)


STAGES: dict[str, Stage] = {}


@dataclass(frozen=True)
class WorkConfig:
    stage: Annotated[str, runtime]


@kind("lost-leases/work", version=1)
def work(config: WorkConfig, out: Out) -> int:
    stage = STAGES[config.stage]
    stage.began.append(time.monotonic())
    assert len(stage.began) > 1 or stage.go_on.wait(DEADLINE)
    return 1


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def stage(request) -> Iterator[str]:
    STAGES[request.node.name] = Stage()
    yield request.node.name
    STAGES[request.node.name].go_on.set()


def take_over(store: Store, digest: str) -> None:
    """What another driver does that found the lease stale; it gives the step back at once."""
    while True:
        lease = claim(store, digest, store.head(digest))
        if lease is not None:  # else the holder renewed in between
            lease.release("handed on")
            return


def test_lost_lease_wakes_a_loop_that_would_wait_for_long(world, stage):
    backend = ThreadBackend()
    patient = Timing(heartbeat=0.05, lease=0.25, poll=DEADLINE / 3)
    scheduler = world.scheduler(world.plan(Step("work", work, WorkConfig(stage))), backend, timing=patient)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    wait_until(lambda: STAGES[stage].began)
    take_over(world.store, backend.submitted[0].digest)
    wait_until(lambda: backend.cancelled, seconds=patient.poll / 2)  # by itself the loop would look later
    thread.join(DEADLINE)
    (status,) = scheduler.statuses.values()
    assert status.state is State.DONE and status.record is not None and status.record.attempt == 3
    assert status.infrastructure_failures == 0  # it was not the step's fault


def test_lost_lease_interrupts_a_step_of_the_local_backend(tmp_path):
    engine = Engine(tmp_path, experiment=EXPERIMENTS / "limited.py")
    driver = engine.start("--backend", "local", "--seconds", "600", "--names", "a")
    try:
        wait_until(lambda: engine.ran() == ["a"])
        store = Store.open(str(engine.store))
        (digest,) = store.known_digests()
        take_over(store, digest)
        wait_until(lambda: engine.ran() == ["a", "a"])  # the first would go on for ten minutes
    finally:
        driver.kill()
    _, said = driver.communicate(timeout=DEADLINE)
    assert "lease lost to another driver" in said


def test_store_that_takes_no_renewals_for_a_lease_time_stops_the_task_and_the_run_goes_on(world, stage, monkeypatch):
    away = threading.Event()
    replace, read = LocalFiles.replace, LocalFiles.read

    def replace_unless_away(files: LocalFiles, *arguments: Any) -> Any:
        if away.is_set():
            raise OSError(5, "Input/output error")
        return replace(files, *arguments)

    def read_unless_away(files: LocalFiles, path: str) -> Any:
        if away.is_set():
            raise OSError(5, "Input/output error")
        return read(files, path)

    monkeypatch.setattr(LocalFiles, "replace", replace_unless_away)
    monkeypatch.setattr(LocalFiles, "read", read_unless_away)
    backend = ThreadBackend()
    scheduler = world.scheduler(world.plan(Step("work", work, WorkConfig(stage))), backend)
    notes: list[str] = []
    scheduler.on_change = lambda status: notes.append(status.note)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    wait_until(lambda: STAGES[stage].began)
    away.set()
    wait_until(lambda: backend.cancelled)
    wait_until(lambda: any("the store does not answer, trying again" in note for note in notes))
    away.clear()
    thread.join(DEADLINE)
    (status,) = scheduler.statuses.values()
    assert status.state is State.DONE and status.record is not None and status.record.attempt == 2
    assert any("could not be renewed for more than 0.25 s" in note for note in notes)


def test_store_that_stays_away_ends_the_step_with_its_reason(world, stage, monkeypatch):
    plan = world.plan(Step("work", work, WorkConfig(stage)))

    def refuse(files: LocalFiles, path: str) -> Any:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(LocalFiles, "read", refuse)
    (status,) = world.scheduler(plan).run().values()
    assert status.state is State.FAILED and status.failure is not None
    assert "Stale file handle" in status.failure.reason and STAGES[stage].began == []
