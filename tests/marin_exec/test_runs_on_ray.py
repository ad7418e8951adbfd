"""Runs on a real Ray cluster on loopback, started by the driver as a user's would be; drivers and workers are killed."""

import json
import os
import shutil
import signal
import time

import pytest
from engine import EXPERIMENTS, Engine

SHARDS = 8


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path)


def wait_until(condition, seconds: float = 90.0, what: str = "condition") -> None:
    """Polls, with a bound: for effects of another process that nothing announces."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come about in {seconds} s")
        time.sleep(0.05)


def kill_group(process) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    process.stderr.close()


def show(engine: Engine, name: str) -> dict:
    return json.loads(engine.call("show", name, "--json").stdout)["record"]


def test_driver_killed_in_map_shards_next_run_keeps_committed_shards(engine):
    slow = ("--count", str(SHARDS), "--shard_seconds", "1.0")
    driver = engine.start(*slow)
    wait_until(lambda: len([each for each in engine.ran() if each.startswith("shard")]) >= 3, what="three shards")
    os.kill(driver.pid, signal.SIGKILL)
    kill_group(driver)
    committed = list(engine.store.glob(".marin/steps/*/pieces/*/shard/*.json"))
    assert committed and len(committed) < SHARDS
    done = engine.run(*slow, backend="ray")
    assert done.returncode == 0, done.stderr
    record = show(engine, "numbers")
    assert record["attempt"] == 2 and record["chain"] == 1
    assert record["pieces"]["taken_up"] >= len(committed)
    assert record["pieces"]["taken_up"] + record["pieces"]["made"] == SHARDS
    assert record["result"] == {"rows": SHARDS, "total": sum(range(SHARDS))}
    # The finished output is one plain directory, and equal to that of a run that nobody disturbed.
    undisturbed = Engine(engine.folder / "undisturbed")
    undisturbed.folder.mkdir()
    assert undisturbed.run("--count", str(SHARDS)).returncode == 0
    assert show(undisturbed, "numbers")["output_digest"] == record["output_digest"]
    assert show(undisturbed, "total")["output_digest"] == show(engine, "total")["output_digest"]


def test_experiment_outside_the_project_with_a_helper_beside_it_runs(engine, tmp_path):
    folder = tmp_path / "someone" / "else"
    shutil.copytree(EXPERIMENTS / "outside", folder)
    engine.experiment = folder / "elsewhere.py"
    done = engine.run(backend="ray")
    assert done.returncode == 0, done.stderr
    assert show(engine, "second")["result"] == 42


def test_worker_killed_is_retried_as_a_new_attempt_and_counted_in_the_store(engine):
    engine.experiment = EXPERIMENTS / "trouble.py"
    done = engine.run("--how", "killed once", backend="ray")
    assert done.returncode == 0, done.stderr
    assert show(engine, "trouble")["attempt"] == 2


def test_exception_that_cannot_travel_is_shown_with_its_type_message_and_place(engine):
    engine.experiment = EXPERIMENTS / "trouble.py"
    failed = engine.run("--how", "unpicklable", backend="ray")
    assert failed.returncode == 1
    assert "HoldsALock: held something that cannot travel" in failed.stderr
    assert "trouble.py" in failed.stderr and "the last words of the worker" in failed.stderr


def test_sigterm_cancels_gives_the_lease_back_and_exits_130(engine):
    engine.experiment = EXPERIMENTS / "trouble.py"
    driver = engine.start("--how", "sleeps")
    wait_until(lambda: list(engine.store.glob("trouble-*/a1-*/half.txt")), what="the step's first file")
    driver.send_signal(signal.SIGTERM)
    _, stderr = driver.communicate(timeout=60)
    assert driver.returncode == 130, stderr
    assert "interrupted" in stderr
    (row,) = json.loads(engine.call("status", "--how", "sleeps", "--json").stdout)["steps"]
    assert row["state"] == "stopped" and "cancelled" in row["detail"]
