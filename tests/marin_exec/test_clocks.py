"""No clock decides what runs: drivers whose clocks are years apart share a store, and times of files mean nothing."""

import json
import os
import random
import signal
from datetime import datetime
from pathlib import Path

import pytest
from engine import Engine
from waiting import wait_until

CLOCKS = Path(__file__).with_name("clocks")
SLOW = ("--backend", "local", "--shard_seconds", "0.8")  # four of them take longer than a lease


@pytest.fixture
def engine(tmp_path) -> Engine:
    engine = Engine(tmp_path)
    engine.environment["PYTHONPATH"] = f"{CLOCKS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return engine


def set_clock(engine: Engine, days: int) -> None:
    engine.environment["CLOCK_OFFSET_DAYS"] = str(days)


def record_of(engine: Engine, name: str) -> dict:
    return json.loads(engine.call("show", name, "--json").stdout)["record"]


def test_drivers_whose_clocks_are_years_apart_run_each_step_once(engine):
    drivers = []
    for days in (3650, -3650):
        set_clock(engine, days)
        drivers.append(engine.start(*SLOW))
    ended = [driver.communicate(timeout=120) for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], [said for _, said in ended]
    assert sorted(engine.ran()) == sorted(set(engine.ran())) and engine.ran().count("numbers") == 1
    assert record_of(engine, "numbers")["attempt"] == 1  # nobody's lease looked old to the other
    finished = {
        record_of(engine, name)["finished"][:4] for name in ("numbers", "power/squares", "power/cubes", "total")
    }
    assert str(datetime.now().year) not in finished, "the clocks were not off"


def test_lease_of_a_killed_driver_whose_clock_was_ahead_is_taken_over(engine):
    set_clock(engine, 3650)
    driver = engine.start(*SLOW)
    wait_until(lambda: "shard-1" in engine.ran(), what="a shard")
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=30)
    set_clock(engine, -3650)
    done = engine.run("--shard_seconds", "0.01")
    assert done.returncode == 0, done.stderr
    made = record_of(engine, "numbers")
    assert made["attempt"] == 2 and made["pieces"]["taken_up"] >= 1


def test_times_of_files_and_the_clock_decide_nothing(engine):
    set_clock(engine, 0)
    engine.run()
    before = record_of(engine, "total")["output_digest"]
    times = random.Random(0)
    for path in engine.store.rglob("*"):
        stamp = times.randrange(4_000_000_000)
        os.utime(path, (stamp, stamp))
    for days in (-3650, 3650):
        set_clock(engine, days)
        again = engine.run()
        assert "4 REUSE; nothing to run" in again.stderr, again.stderr
    assert engine.call("verify", "--all", "--checksums").returncode == 0
    forced = engine.run("--force", "*", "--with-descendants")
    assert forced.returncode == 0 and engine.ran().count("total") == 2, forced.stderr
    assert record_of(engine, "total")["output_digest"] == before
