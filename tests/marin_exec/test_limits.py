"""Named limits: at most so many steps at a time, in one run and over several, however they end."""

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from engine import EXPERIMENTS, Engine
from inprocess import ThreadBackend, World

from marin_exec import ConfigError, Out, Step, kind, runtime
from marin_exec.runners.state import State

WAIT_SECONDS = 20.0


@dataclass
class Stage:
    """What the bodies of one test share, by its name."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: Counter = field(default_factory=Counter)
    most: Counter = field(default_factory=Counter)
    go_on: threading.Event = field(default_factory=threading.Event)
    runs: Counter = field(default_factory=Counter)


STAGES: dict[str, Stage] = {}


@dataclass(frozen=True, kw_only=True)
class AskConfig:
    number: int
    stage: Annotated[str, runtime]
    how: Annotated[str, runtime] = "ends"


@kind("limits/ask", version=1)
def ask(config: AskConfig, out: Out) -> int:
    stage = STAGES[config.stage]
    with stage.lock:
        stage.runs[out.step_name] += 1
        stage.inside["all"] += 1
        stage.most["all"] = max(stage.most["all"], stage.inside["all"])
    try:
        if config.how == "waits":
            assert stage.go_on.wait(WAIT_SECONDS)
        if config.how == "fails":
            raise ValueError("no answer")
        time.sleep(0.02)
    finally:
        with stage.lock:
            stage.inside["all"] -= 1
    return config.number


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def stage(request) -> Iterator[str]:
    STAGES[request.node.name] = Stage()
    yield request.node.name
    STAGES[request.node.name].go_on.set()


def asking(stage: str, count: int, number: int, how: str = "ends", first: int = 0) -> list[Step]:
    return [
        Step(f"ask/{n}", ask, AskConfig(number=n, stage=stage, how=how), limits={"api": number})
        for n in range(first, first + count)
    ]


def test_limit_bounds_the_steps_that_run_at_once_and_all_of_them_end(world, stage):
    statuses = world.run(*asking(stage, 9, 2))
    assert {str(each.state) for each in statuses.values()} == {"done"}
    assert STAGES[stage].most["all"] == 2 and set(STAGES[stage].runs.values()) == {1}


def test_limit_bounds_the_steps_of_all_drivers_of_the_store(world, stage):
    runs = [world.scheduler(world.plan(*asking(stage, 6, 2, first=6 * n))) for n in range(3)]
    threads = [threading.Thread(target=run.run) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {str(each.state) for run in runs for each in run.statuses.values()} == {"done"}
    assert STAGES[stage].most["all"] == 2 and sum(STAGES[stage].runs.values()) == 18


def test_waiting_step_says_for_what_holds_nothing_and_blocks_no_other(world, stage):
    notes: list[tuple[str, str]] = []
    ended = threading.Event()
    free = Step("free", ask, AskConfig(number=99, stage=stage))
    steps = [*asking(stage, 2, 1, how="waits"), free]
    scheduler = world.scheduler(world.plan(*steps))

    def note(status: Any) -> None:
        notes.append((status.planned.step.name, status.note))
        if status.planned.step.name == "free" and status.state is State.DONE:
            ended.set()

    scheduler.on_change = note
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    assert ended.wait(WAIT_SECONDS)  # though one step waits for a slot, and the other has it
    waiting = next(each for each in scheduler.statuses.values() if each.state is State.WAITING)
    assert ("ask/1", "waits for a slot of api (1 of 1 taken)") in notes
    assert waiting.planned.step.name == "ask/1" and waiting.lease is None
    assert world.store.head(waiting.planned.digest) is None  # another driver may have it
    STAGES[stage].go_on.set()
    thread.join(WAIT_SECONDS)
    assert {str(each.state) for each in scheduler.statuses.values()} == {"done"}


@pytest.mark.parametrize("how", ["fails", "lost worker", "cancelled"])
def test_slots_come_back_however_an_attempt_ends(world, stage, how):
    steps = asking(stage, 3, 1, how="fails" if how == "fails" else "ends")
    backend = ThreadBackend(lose=["ask/0"] if how == "lost worker" else [])
    scheduler = world.scheduler(world.plan(*steps), backend)
    scheduler.cancelled = how == "cancelled"
    states = Counter(str(each.state) for each in scheduler.run().values())
    assert states == {"fails": {"failed": 3}, "lost worker": {"done": 3}, "cancelled": {"cancelled": 3}}[how]
    (head,) = [world.store.head_at(f".marin/limits/api/{k}/head.json") for k in (1,)]
    assert head is None if how == "cancelled" else head is not None and head.data.state == "free"


def test_limit_is_not_identity_and_reused_steps_take_no_slot(world, stage):
    world.run(*asking(stage, 2, 1))
    before = world.store.head_at(".marin/limits/api/1/head.json")
    assert set(world.actions(*asking(stage, 2, 7)).values()) == {"REUSE"}
    world.run(*asking(stage, 2, 7))
    assert world.store.head_at(".marin/limits/api/1/head.json") == before


@pytest.mark.parametrize("limits", [{"api": 0}, {"api": True}, {"api": 1.5}, {"": 1}, {3: 1}])
def test_limit_that_is_none_is_refused(limits):
    with pytest.raises(
        ConfigError, match=r"step ask: limits= holds .*; a name and a whole number from 1 on are needed"
    ):
        Step("ask", ask, limits=limits)


def test_slots_of_a_killed_driver_come_back_after_its_lease_time(tmp_path):
    engine = Engine(tmp_path, experiment=EXPERIMENTS / "limited.py")
    first = engine.start("--backend", "local", "--seconds", "600", "--names", "a")
    deadline = time.monotonic() + 60
    while "a" not in engine.ran():
        assert time.monotonic() < deadline and first.poll() is None
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=30)
    done = engine.run("--seconds", "0", "--names", "b,c")  # other steps: only the slot is in their way
    assert done.returncode == 0, done.stderr
    assert "waits for a slot of api (1 of 1 taken)" in done.stderr
    assert engine.ran() == ["a", "b", "c"]
    record = json.loads(engine.call("show", "ask/b", "--json").stdout)["record"]
    assert record["attempt"] == 1


def test_slot_of_a_stopped_driver_that_wakes_is_not_used_by_two(tmp_path):
    """It finds its slot taken, stops its step though the step's own lease is still its own, and waits like others."""
    engine = Engine(tmp_path, experiment=EXPERIMENTS / "limited.py")
    sleeper = engine.start("--backend", "local", "--seconds", "3", "--names", "a")
    deadline = time.monotonic() + 60
    while "a" not in engine.ran():
        assert time.monotonic() < deadline and sleeper.poll() is None
        time.sleep(0.02)
    os.kill(sleeper.pid, signal.SIGSTOP)
    other = engine.start("--backend", "local", "--seconds", "3", "--names", "b")
    while "b" not in engine.ran():
        assert time.monotonic() < deadline and other.poll() is None
        time.sleep(0.02)
    os.kill(sleeper.pid, signal.SIGCONT)
    said = [driver.communicate(timeout=90)[1] for driver in (other, sleeper)]
    assert (other.returncode, sleeper.returncode) == (0, 0), said
    assert "lease lost to another driver" in said[1] and "waits for a slot of api" in said[1]
    assert engine.ran() == ["a", "b", "a"]
