"""Several drivers on one store, in real processes: stopped, woken, killed, and all at once."""

import json
import os
import signal
from pathlib import Path

import pytest
from engine import Engine
from waiting import wait_until


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path)


def wait_for(engine: Engine, what: str, seconds: float = 60) -> None:
    wait_until(lambda: what in engine.ran(), seconds, f"running of {what}", every=0.02)


def record_of(engine: Engine, name: str) -> dict:
    return json.loads(engine.call("show", name, "--json").stdout)["record"]


def test_driver_stopped_past_its_lease_is_followed_and_when_woken_reuses_the_others_result(engine):
    slow = ("--backend", "local", "--shard_seconds", "0.3")
    sleeper = engine.start(*slow)
    wait_for(engine, "shard-1")
    os.kill(sleeper.pid, signal.SIGSTOP)
    follower = engine.start(*slow)
    _, said = follower.communicate(timeout=90)
    assert follower.returncode == 0, said
    assert "wait    numbers  (held by" in said
    record = record_of(engine, "numbers")
    assert (record["attempt"], record["chain"]) == (2, 1) and record["pieces"]["taken_up"] >= 1
    before = engine.tree()
    os.kill(sleeper.pid, signal.SIGCONT)
    _, said = sleeper.communicate(timeout=90)
    assert sleeper.returncode == 0, said
    assert "lease lost" in said and "reuse   numbers" in said
    assert record_of(engine, "numbers") == record
    assert engine.ran().count("total") == 1 and engine.ran().count("power-2") == 1
    # Whatever the woken driver still wrote is in its own attempt's directory, or its logs.
    # A folder's time changes when it was stopped in the middle of a commit there, whose temporary name now goes away.
    after = engine.tree()
    changed = {path for path, now in after.items() if before.get(path) != now and not (engine.store / path).is_dir()}
    own = f"numbers-{record['digest'][:16]}/a1-"
    logs = (f".marin/steps/{record['digest']}/attempts", ".marin/runs/")
    assert all(own in path or path.startswith(logs) or Path(path).name.startswith("numbers-") for path in changed), (
        changed
    )
    assert not any("record.json" in path or "head.json" in path for path in changed)


def test_driver_stopped_past_its_lease_adds_nothing_to_the_chain_of_a_forced_run(engine):
    """Its shards are pieces of the chain that it was in, which the other did not take up."""
    slow = ("--backend", "local", "--shard_seconds", "0.3")
    sleeper = engine.start(*slow)
    wait_for(engine, "shard-1")
    os.kill(sleeper.pid, signal.SIGSTOP)
    forced = engine.run("--shard_seconds", "0.3", "--force", "numbers")
    assert forced.returncode == 0, forced.stderr
    record = record_of(engine, "numbers")
    assert (record["attempt"], record["chain"]) == (2, 2) and record["pieces"] == {"made": 4, "taken_up": 0}
    mine = engine.store / f".marin/steps/{record['digest']}/pieces/2"
    before = {path: path.read_bytes() for path in mine.rglob("*.json")}
    os.kill(sleeper.pid, signal.SIGCONT)
    _, said = sleeper.communicate(timeout=90)
    assert sleeper.returncode == 0 and "reuse   numbers" in said, said
    assert {path: path.read_bytes() for path in mine.rglob("*.json")} == before and len(before) == 4
    assert record_of(engine, "numbers") == record
    assert all(f"{record['output_path']}" in json.loads(text)["attempt_path"] for text in before.values())


def test_drivers_five_at_once_run_each_step_once_and_all_end_well(engine):
    drivers = [engine.start("--backend", "local", "--shard_seconds", "0.1") for _ in range(5)]
    ended = [driver.communicate(timeout=120) for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0] * 5, [said for _, said in ended]
    assert sorted(engine.ran()) == sorted(set(engine.ran()))
    assert len({printed for printed, _ in ended}) == 1  # all of them say where the target is


def test_driver_killed_while_others_wait_one_of_them_goes_on(engine):
    slow = ("--backend", "local", "--shard_seconds", "0.4")
    first = engine.start(*slow)
    wait_for(engine, "shard-1")
    waiting = [engine.start(*slow) for _ in range(2)]
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=30)
    ended = [driver.communicate(timeout=90) for driver in waiting]
    assert [driver.returncode for driver in waiting] == [0, 0], [said for _, said in ended]
    record = record_of(engine, "numbers")
    assert record["attempt"] == 2 and record["pieces"]["taken_up"] >= 1
    assert engine.ran().count("total") == 1


@pytest.mark.parametrize(
    ("option", "taken_up", "after"),
    [("say", 0, "REUSE"), ("reuse", 2, "REUSE"), ("rerun", 0, "RUN"), ("refuse", 0, None)],
)
def test_on_code_change_half_done_pieces_and_finished_steps(engine, tmp_path, option, taken_up, after):
    """Half of the shards were made by other code when the driver was killed; later a finished step's code changes."""
    source = engine.experiment.read_text()
    engine.experiment = tmp_path / "chain.py"
    engine.experiment.write_text(source)
    driver = engine.start("--backend", "local", "--shard_seconds", "0.5")
    wait_for(engine, "shard-2")  # so that the first two are committed
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=30)
    engine.experiment.write_text(source.replace('return {"number": item.number}', 'return {"number": item.number + 0}'))
    done = engine.run("--on-code-change", option)
    assert done.returncode == 0, done.stderr
    record = record_of(engine, "numbers")
    assert min(record["pieces"]["taken_up"], 2) == taken_up
    assert (record["chain"] == 1) == (taken_up > 0)
    engine.experiment.write_text(source.replace("str(sum(values))", "str(sum(values) + 0)"))
    plan = engine.call("plan", "--json", "--on-code-change", option)
    if after is None:
        assert plan.returncode == 2 and "--on-code-change is 'refuse'" in plan.stderr
    else:
        found = {each["name"]: each for each in json.loads(plan.stdout)["steps"]}["total"]
        assert found["action"] == after and "code changed in chain.total" in found["reason"]
