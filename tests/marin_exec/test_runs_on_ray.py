"""Runs on a real Ray cluster on loopback, started by the driver as a user's would be; drivers and workers are killed."""

import json
import os
import shutil
import signal

import pytest
from engine import EXPERIMENTS, Engine
from waiting import wait_until

SHARDS = 8


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path)


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


def test_sigterm_cancels_gives_the_lease_back_and_exits_130(engine):
    engine.experiment = EXPERIMENTS / "trouble.py"
    driver = engine.start()
    wait_until(lambda: list(engine.store.glob("trouble-*/a1-*/half.txt")), what="the step's first file")
    driver.send_signal(signal.SIGTERM)
    _, stderr = driver.communicate(timeout=60)
    assert driver.returncode == 130, stderr
    assert "interrupted" in stderr
    (row,) = json.loads(engine.call("status", "--json").stdout)["steps"]
    assert row["state"] == "stopped" and "cancelled" in row["detail"]


def test_sigterm_while_ray_is_being_started_is_an_interrupt_too(engine):
    engine.experiment = EXPERIMENTS / "trouble.py"
    driver = engine.start()
    lines = iter(driver.stderr.readline, "")
    assert any("starting Ray on this machine" in line for line in lines)
    driver.send_signal(signal.SIGTERM)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130, said
    assert "interrupted" in said and not list(engine.store.glob("trouble-*"))


def test_steps_that_end_in_every_way_side_by_side_each_is_said_once_and_clearly(engine, tmp_path):
    """One run, started in a folder whose modules shadow the standard library's: Ray's workers do not see those."""
    folder = tmp_path / "experiment"
    folder.mkdir()
    for name in ("random", "queue"):
        (folder / f"{name}.py").write_text("raise RuntimeError('this is not the standard library')\n")
    engine.experiment = folder / "mixed.py"
    engine.working_directory = folder
    shutil.copy(EXPERIMENTS / "mixed.py", engine.experiment)
    done = engine.run(backend="ray")
    assert done.returncode == 1, done.stderr
    states = {row["name"]: row for row in json.loads(engine.call("status", "--json").stdout)["steps"]}
    well = ("squares", "squares_again", "shard_dies_once", "killed_once", "trains", "evaluates")
    assert {name for name, row in states.items() if row["state"] == "done"} == set(well), done.stderr
    assert {row["state"] for name, row in states.items() if name not in well} == {"failed"}
    assert show(engine, "squares")["result"] == 14 and show(engine, "evaluates")["result"] == "w"
    said = done.stderr
    assert "FAILED shard_raises (attempt 1): shard part-2: ValueError: bad shard" in said
    # The line of the change, the heading of the summary, the end of the traceback.
    assert said.count("ValueError: bad shard") == 3
    assert "the shard's last words" in said and "in raising" in said
    assert (
        "\x1b" not in said
        and "ray::" not in said
        and "/site-packages/ray/" not in said
        and "marin_exec/runners" not in said
    )
    assert "FAILED prints_megabytes (attempt 1): ValueError: after printing" in said
    assert "the end of five megabytes" in said and len(said) < 60_000
    assert "FAILED unpicklable (attempt 1): HoldsALock: held something that cannot travel" in said
    assert "mixed.py" in said and "the last words of the worker" in said
    assert show(engine, "killed_once")["attempt"] == 2
    assert "FAILED interrupts (attempt 1): KeyboardInterrupt" in said
    assert "FAILED exits (attempt 2): WorkerCrashedError" in said
    assert (
        "FAILED wants_gpus (attempt 1): step wants_gpus: needs 1000 GPU, and no node of the cluster has more than 0 GPU"
        in said
    )
    # The targets that came about are on stdout, with their paths.
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == set(well)


def test_driver_stopped_past_its_lease_its_task_is_cancelled_when_it_wakes(engine):
    engine.experiment = EXPERIMENTS / "mixed.py"
    sleeper = engine.start("--held", "true")
    wait_until(lambda: list(engine.folder.glob("held-*")), what="the step on Ray")
    (on_ray,) = engine.folder.glob("held-*")
    os.kill(sleeper.pid, signal.SIGSTOP)
    follower = engine.start("--held", "true", "--backend", "local")
    wait_until(lambda: len(list(engine.folder.glob("held-*"))) == 2, what="the follower's attempt")
    task_pid = int(on_ray.name.split("-")[1])
    assert os.path.exists(f"/proc/{task_pid}")
    os.kill(sleeper.pid, signal.SIGCONT)
    # Long before the work would end by itself: it is released only afterwards.
    wait_until(
        lambda: not os.path.exists(f"/proc/{task_pid}"), seconds=20, what="the cancelling of the woken driver's task"
    )
    (engine.folder / "released").write_text("")
    for driver in (follower, sleeper):
        _, said = driver.communicate(timeout=90)
        assert driver.returncode == 0, said
    assert "lease lost to another driver" in said and "reuse   held" in said
    assert show(engine, "held")["attempt"] == 2


ADOPTING = """
from marin_exec import adopt

def pipeline():
    return adopt({path!r}, {digest!r}, name="inputs/adopted")
"""


@pytest.mark.slow
def test_content_other_than_stated_found_by_a_step_on_ray_exits_with_4(engine, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "x.txt").write_text("x")
    engine.experiment = tmp_path / "adopting.py"
    engine.experiment.write_text(ADOPTING.format(path=str(data), digest="0" * 64))
    refused = engine.run(backend="ray")
    assert refused.returncode == 4, refused.stderr
    assert "the experiment states " + "0" * 64 in refused.stderr


EDITED_MEANWHILE = """
import os
from pathlib import Path
from late_library import declared, undeclared
from marin_exec import Resources, Step

def edit(config, out):
    library = Path(os.environ["LIBRARY"])
    library.write_text(library.read_text().replace("'planned'", "'edited'"))
    Path(os.environ["EXPERIMENT"]).write_text("raise RuntimeError('nobody reads this while the run goes on')")
    return 1

def pipeline():
    first = Step("edit", edit)
    elsewhere = Resources(env={"OF_ITS_OWN": "1"})  # so that Ray starts another process, which imports anew
    return [Step(fn.__name__, fn, after=(first,), resources=elsewhere) for fn in (declared, undeclared)]
"""
LIBRARY = """
from marin_exec import kind

@kind("late/declared", version=1)
def declared(config, out):
    return 'planned'

def undeclared(config, out):
    return 'planned'
"""


def test_files_edited_while_a_run_goes_on_change_no_plan_and_pass_for_nothing_that_they_are_not(engine, tmp_path):
    """Workers get what was planned and plan nothing themselves. Code that is identity never runs under another's."""
    library = tmp_path / "library" / "late_library.py"
    library.parent.mkdir()
    library.write_text(LIBRARY)
    engine.experiment = tmp_path / "experiment" / "edited.py"
    engine.experiment.parent.mkdir()
    engine.experiment.write_text(EDITED_MEANWHILE)
    engine.environment |= {"LIBRARY": str(library), "EXPERIMENT": str(engine.experiment)}
    engine.environment["PYTHONPATH"] = f"{library.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = engine.run(backend="ray")
    assert done.returncode == 1, done.stderr
    assert (
        "the code of late_library.undeclared, or code that it uses, was edited after the plan was made" in done.stderr
    )
    record = show(engine, "declared")
    assert record["result"] == "edited" and record["attempt"] == 1
    engine.experiment.write_text(EDITED_MEANWHILE)
    again = engine.run()
    assert again.returncode == 0, again.stderr
    assert show(engine, "undeclared")["result"] == "edited"
    # The version says that the code means the same, and the record has what ran: nothing is said of a change.
    assert show(engine, "declared") == record and "declared: reused, though" not in again.stderr
