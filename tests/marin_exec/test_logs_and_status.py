"""What goes on and what went wrong, from the store alone: logs of attempts, event logs of runs, status across runs."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from engine import EXPERIMENTS, Engine
from waiting import wait_until

from marin_exec.cli.log_verbs import _growing


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path)


def as_json(engine: Engine, verb: str, *arguments: str) -> dict[str, Any]:
    """Calls a verb that needs no experiment, with --json."""
    answer = subprocess.run(
        [engine.command("ls")[0], verb, *arguments, "--json"],
        env=engine.env(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def started_and_held(engine: Engine) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Starts a run that takes its time, and returns it and what is held once it runs a step."""
    run = engine.start("--backend", "local", "--shard_seconds", "1.0")
    return run, wait_until(lambda: as_json(engine, "status", "--no-watch")["held"])[0]


def test_log_of_a_failed_step_has_reason_traceback_and_output_by_name_path_and_digest(engine):
    failed = engine.run("--fail", "3")
    assert failed.returncode == 1
    (command,) = [line.split("log: ")[1] for line in failed.stderr.splitlines() if "log: marin-exec" in line]
    assert command == f"marin-exec logs power/cubes --prefix {engine.store}"
    by_name = engine.call("logs", "power/cubes")
    assert by_name.returncode == 0 and by_name.stderr == ""
    assert "attempt 1 of 1" in by_name.stdout and "never run" in by_name.stdout and "Traceback" in by_name.stdout
    said = as_json(engine, "logs", "power/cubes")
    assert said["state"] == "failed" and [each["type"] for each in said["events"]][-1] == "ended"
    assert engine.call("logs", said["digest"][:10]).stdout == by_name.stdout
    folder = next(engine.store.glob("power/cubes-*/a1-*"))
    assert engine.call("logs", str(folder)).stdout == by_name.stdout


def test_log_of_a_finished_step_ends_with_its_output_and_another_attempt_can_be_chosen(engine):
    engine.run()
    engine.run("--force", "numbers")
    second = as_json(engine, "logs", "numbers")
    assert (second["attempt"], second["state"], second["attempts"]) == (2, "done", [1, 2])
    done = second["events"][-1]
    assert done["type"] == "done" and Path(done["output"]).name.startswith("a2-") and done["files"] > 0
    first = engine.call("logs", "numbers", "--attempt", "1")
    assert "done" in first.stdout.splitlines()[-1]
    wrong = engine.call("logs", "numbers", "--attempt", "7")
    assert wrong.returncode == 1 and "it has 1, 2" in wrong.stderr


def test_name_of_several_steps_means_the_one_begun_last_and_says_so(engine):
    engine.run("--count", "2")
    engine.run("--count", "3")
    answer = engine.call("logs", "total")
    assert "which was begun last" in answer.stderr
    plan = json.loads(engine.call("plan", "--count", "3", "--json").stdout)
    digest = next(each["digest"] for each in plan["steps"] if each["name"] == "total")
    assert digest[:16] in answer.stdout.splitlines()[0]
    unknown = engine.call("logs", "totl")
    assert unknown.returncode == 1 and "did you mean" in unknown.stderr and "total" in unknown.stderr


def test_run_that_goes_on_is_shown_with_what_it_holds_and_can_be_followed_to_its_end(engine):
    run, held = started_and_held(engine)
    assert (held["name"], held["attempt"], held["pid"]) == ("numbers", 1, run.pid)
    (shown,) = as_json(engine, "status")["runs"]
    assert (shown["state"], shown["run_id"]) == ("running", held["run_id"])
    assert as_json(engine, "logs", "numbers")["state"] == "running"
    text = engine_call(engine, "status", "--run", held["run_id"], "--follow")
    assert run.wait(60) == 0
    lines = text.splitlines()
    assert " started " in lines[0] and " finished " in lines[-1] and "4 done" in lines[-1]
    assert len([line for line in lines if " done " in line and "finished" not in line]) == 4
    events = as_json(engine, "status", "--run", held["run_id"])["events"]
    assert [each["type"] for each in events] == ["started", *["step"] * (len(events) - 2), "finished"]
    (shown,) = as_json(engine, "status")["runs"]
    assert (shown["state"], shown["counts"]) == ("finished", {"done": 4})


def engine_call(engine: Engine, verb: str, *arguments: str) -> str:
    answer = subprocess.run(
        [engine.command("ls")[0], verb, *arguments], env=engine.env(), capture_output=True, text=True, timeout=120
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_driver_that_was_killed_is_told_by_its_silence_and_then_by_who_took_over(engine):
    run, held = started_and_held(engine)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    (shown,) = as_json(engine, "status")["runs"]
    assert shown["state"] == "died" and "numbers" in shown["detail"]
    assert [each["alive"] for each in as_json(engine, "status")["held"]] == [False]
    assert engine.run("--shard_seconds", "0").returncode == 0
    newest, oldest = as_json(engine, "status")["runs"]
    assert (newest["state"], oldest["state"]) == ("finished", "died") and "took over" in oldest["detail"]
    assert as_json(engine, "logs", "numbers", "--attempt", "1")["state"] == "never ended"
    assert held["run_id"] == oldest["run_id"]


def test_interrupted_and_failed_runs_say_so(engine):
    run, held = started_and_held(engine)
    run.send_signal(signal.SIGTERM)
    assert run.wait(60) == 130
    engine.run("--fail", "3")
    failed, interrupted = as_json(engine, "status")["runs"]
    assert (interrupted["run_id"], interrupted["state"]) == (held["run_id"], "interrupted")
    assert failed["state"] == "failed" and "power/cubes" in failed["detail"]
    assert as_json(engine, "logs", "numbers", "--attempt", "1")["state"] == "cancelled"


def test_run_that_ended_by_an_error_before_any_step_says_which(engine):
    refused = engine.run("--address", "127.0.0.1:1", backend="ray")
    assert refused.returncode == 2 and "no Ray cluster at '127.0.0.1:1'" in refused.stderr
    (run,) = as_json(engine, "status")["runs"]
    assert run["state"] == "failed" and "no Ray cluster at '127.0.0.1:1'" in run["detail"]
    events = as_json(engine, "status", "--run", run["run_id"])["events"]
    assert [each["type"] for each in events] == ["started", "finished"] and run["detail"] in events[-1]["error"]


def test_status_of_an_experiment_ends_with_the_counts(engine):
    engine.run("--until", "numbers")
    *steps, counts = engine.call("status").stdout.splitlines()
    assert counts == f"{len(steps)} steps: 1 done, {len(steps) - 1} to run"


def test_run_whose_event_log_cannot_be_written_goes_on_and_warns(engine):
    (engine.store / ".marin").mkdir(parents=True)
    (engine.store / ".marin" / "runs").write_text("in the way")
    done = engine.run()
    assert done.returncode == 0 and done.stderr.count("event log cannot be written") == 1


def test_summary_names_what_ran_what_was_reused_from_when_and_what_a_failure_blocked(engine):
    first = engine.run("--fail", "3")
    assert "blocked by power/cubes: total" in first.stderr
    assert "ran: numbers " in first.stderr and "power/squares" in first.stderr
    second = engine.run()
    (line,) = [line for line in second.stderr.splitlines() if line.strip().startswith("reused:")]
    (run_id,) = re.findall(r" run (\S+): ", first.stderr)
    assert line.strip() == f"reused: 2 steps of run {run_id}"


def test_following_yields_each_event_once_however_the_log_grows():
    logged: list[dict[str, Any]] = [{"type": "started", "time": "1"}]

    def grow() -> None:
        for number in range(20):
            time.sleep(0.05)
            logged.insert(len(logged) - number % 2, {"type": "progress", "time": str(number)})
        logged.append({"type": "ended", "time": "9"})

    writer = threading.Thread(target=grow)
    writer.start()
    seen = list(_growing(lambda: list(logged), lambda events: events[-1]["type"] == "ended", follow=True))
    writer.join()
    assert sorted(map(str, seen)) == sorted(map(str, logged)) and len(logged) == 22


def test_experiment_and_run_options_that_contradict_are_refused(engine):
    for arguments in (("--follow",), (str(EXPERIMENTS / "chain.py"), "--run", "x")):
        refused = subprocess.run([engine.command("ls")[0], "status", *arguments], env=engine.env(), capture_output=True)
        assert refused.returncode == 2
    assert (
        subprocess.run(
            [engine.command("ls")[0], "status", "--run", "x"], env=engine.env(), capture_output=True
        ).returncode
        == 1
    )
