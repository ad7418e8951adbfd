"""Runs on a cluster of several nodes: nodes, workers and drivers die, and steps wait for nodes that are yet to come."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from engine import EXPERIMENTS, PROGRAM, Engine
from loopback_cluster import LoopbackCluster
from processes import alive, places
from waiting import wait_until

from marin_exec.store import Store


@pytest.fixture
def engine(engine) -> Engine:
    engine.experiment = EXPERIMENTS / "clustered.py"
    return engine


def record(engine: Engine, name: str) -> dict:
    return json.loads(engine.call("show", name, "--json").stdout)["record"]


def events_of(engine: Engine, digest: str, attempt: int) -> list[dict]:
    return Store.open(str(engine.store)).events(digest, attempt)


def heads(engine: Engine) -> list[str]:
    paths = [max(steps.glob("head.json.*")) for steps in engine.store.glob(".marin/steps/*")]
    return [json.loads(path.read_text())["state"] for path in paths]


def test_step_waits_for_a_node_goes_on_when_it_comes_and_elsewhere_when_it_is_killed(engine, start, cluster):
    driver = start("--how", "on_b", "--shards", "8", "--shard_seconds", "1")
    needs = "needs 1 b, and no node of the cluster has more than 0 b"

    def status() -> dict:
        (row,) = json.loads(engine.call("status", "--how", "on_b", "--shards", "8", "--json").stdout)["steps"]
        return row

    wait_until(lambda: needs in status()["detail"], what="the reason in the status")
    assert status()["state"] == "running"  # its lease is held all the while
    first = cluster.add_node(b=1)
    # Two shards committed, so that there is something to go on from.
    trace = engine.folder / "shards.txt"
    wait_until(lambda: trace.exists() and len(trace.read_text().split()) >= 2, what="two shards")
    assert [host for host, _ in places(engine.folder, "step")] == [first.ip]
    first.kill()
    cluster.add_node(b=1)
    _, said = driver.communicate(timeout=120)
    assert driver.returncode == 0, said
    assert f"note    spread {needs}" in said and f"queue   spread  (queued: {needs})" in said
    made = record(engine, "spread")
    assert made["attempt"] == 2 and made["chain"] == 1
    assert made["pieces"]["taken_up"] >= 2 and made["pieces"]["taken_up"] + made["pieces"]["made"] == 8
    assert made["result"] == sum(range(8))
    (ended,) = [each for each in events_of(engine, made["digest"], 1) if each["type"] == "ended"]
    assert ended["infrastructure"] and ended["again"], ended


def test_failures_are_shown_whatever_happened_to_the_process_or_the_exception(engine):
    done = engine.run("--how", "failures", backend="ray")
    assert done.returncode == 1, done.stderr
    said = done.stderr
    assert "FAILED dies (attempt 2): WorkerCrashedError" in said and "the last words of a killed process" in said
    unknown = "Strange: from a class that only the worker knows"
    assert f"FAILED raises_unknown (attempt 1): {unknown}" in said
    assert f"FAILED shard_raises_unknown (attempt 1): shard only: {unknown}" in said
    # A shard that was lost is tried again within the attempt, and the attempt's log says so.
    made = record(engine, "shard_dies")
    assert made["attempt"] == 1 and made["result"] == 1
    (lost,) = [each for each in events_of(engine, made["digest"], 1) if each["type"] == "shard_lost"]
    assert lost["name"] == "only" and lost["times"] == 1 and "WorkerCrashedError" in lost["reason"]
    assert "the last words of a killed shard" in lost["output_tail"]


@pytest.mark.slow
def test_driver_killed_its_step_and_shards_die_and_the_next_run_keeps_the_shards(engine, start):
    slow = ("--how", "spread", "--shards", "6", "--shard_seconds", "1")
    driver = start(*slow)
    trace = engine.folder / "shards.txt"
    wait_until(lambda: trace.exists(), what="a shard")
    running = [pid for what in ("step", "shard-*") for _, pid in places(engine.folder, what)]
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=30)
    wait_until(lambda: not any(map(alive, running)), seconds=30, what="the end of the driver's tasks")
    done = engine.run(*slow, backend="ray")
    assert done.returncode == 0, done.stderr
    made = record(engine, "spread")
    assert made["attempt"] >= 2 and made["pieces"]["taken_up"] >= 1 and made["result"] == sum(range(6))


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_cancelled_run_leaves_no_task_and_no_lease(engine, start, signum):
    driver = start("--how", "spread", "--shard_seconds", "300")
    wait_until(lambda: len(places(engine.folder, "shard-*")) >= 2, what="two shards")
    running = [pid for what in ("step", "shard-*") for _, pid in places(engine.folder, what)]
    assert len(running) >= 3 and all(map(alive, running))
    driver.send_signal(signum)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130, said
    assert not any(map(alive, running)), "the driver ends when its tasks have"
    assert heads(engine) == ["free"]


def test_cancelled_process_that_answers_nobody_is_killed_by_its_number(engine, start):
    driver = start("--how", "stops")
    wait_until(lambda: places(engine.folder, "step"), what="the step")
    ((_, pid),) = places(engine.folder, "step")
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T", what="its stop")
    driver.send_signal(signal.SIGTERM)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130, said
    assert not alive(pid)
    assert heads(engine) == ["free"]


def test_local_modules_of_a_runtime_environment_travel_for_two_drivers_at_once_and_for_the_next(
    engine, start, tmp_path
):
    (tmp_path / "modules" / "only_there").mkdir(parents=True)
    (tmp_path / "modules" / "only_there" / "__init__.py").write_text("GREETING = 'from afar'\n")
    (tmp_path / "modules" / "only_there" / "table.bin").write_bytes(random.Random(0).randbytes(5_000_000))
    arguments = ("--how", "environments", "--modules", str(tmp_path / "modules"))
    drivers = [start(*arguments), start(*arguments)]
    ended = [driver.communicate(timeout=120) for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], [said for _, said in ended]
    made = record(engine, "well")
    assert made["result"] == "from afar" and made["attempt"] == 1
    # Ray forgets what the last driver had sent when that driver ends, and the next one may be just beginning.
    again = engine.run(*arguments, "--force", "well", backend="ray")
    assert again.returncode == 0, again.stderr
    assert record(engine, "well")["attempt"] == 2
    assert list(made["resources"]["runtime_env"]) == ["py_modules"]


def test_environment_that_cannot_be_built_is_named_before_anything_runs(engine):
    done = engine.run("--how", "bad_environment", backend="ray")
    assert done.returncode == 2, done.stderr
    assert "the cluster cannot run this; nothing was started" in done.stderr
    assert "the runtime_env (conda) of bad cannot be built" in done.stderr and "conda" in done.stderr.lower()
    assert not list(engine.store.glob(".marin/steps/*"))


def test_module_that_only_the_driver_has_is_found_missing_on_every_node(engine, cluster, tmp_path):
    folder = tmp_path / "only-here"
    folder.mkdir()
    (folder / "elsewhere_steps.py").write_text("def work(config, out):\n    return 1\n")
    engine.experiment = tmp_path / "experiment" / "uses_elsewhere.py"
    engine.experiment.parent.mkdir()
    engine.experiment.write_text(
        "from marin_exec import Step\nfrom elsewhere_steps import work\n\ndef pipeline():\n    return [Step('work', work)]\n"
    )
    engine.environment["PYTHONPATH"] = f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = engine.run(backend="ray")
    assert done.returncode == 2, done.stderr
    assert f"node {cluster.head.ip}: module elsewhere_steps of a step is not there" in done.stderr


def test_no_cluster_at_the_address_is_said_at_once(engine):
    engine.environment["RAY_ADDRESS"] = "127.0.0.9:1"
    done = engine.run("--how", "spread", backend="ray")
    assert done.returncode == 2 and "no Ray cluster at '127.0.0.9:1'" in done.stderr, done.stderr


def test_job_submitted_to_the_cluster_runs_an_experiment(engine, cluster):
    command = [str(Path(sys.executable).parent / "ray"), "job", "submit", "--address", cluster.dashboard_address]
    command += ["--", "env", f"CHAIN_TRACE={engine.trace}"]  # a job's driver gets the head's environment, not this one
    command += [str(PROGRAM), "run", str(EXPERIMENTS / "clustered.py"), "--prefix", str(engine.store)]
    environment = {**os.environ, **cluster.driver_environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert record(engine, "spread")["result"] == sum(range(6))
    assert len(places(engine.folder, "shard-*")) == 6


@pytest.mark.slow
def test_head_killed_in_a_run_ends_the_driver_with_a_message_and_nothing_is_lost(tmp_path):
    """A cluster of its own: nothing runs on it afterwards."""
    quick = {"RAY_gcs_rpc_server_reconnect_timeout_s": "16"}
    with LoopbackCluster(environment=quick) as cluster:
        environment = {**cluster.driver_environment(), **quick, "RAY_ADDRESS": cluster.address}
        engine = Engine(tmp_path, experiment=EXPERIMENTS / "clustered.py", environment=environment)
        slow = ("--how", "spread", "--shards", "6", "--shard_seconds", "1")
        driver = engine.start(*slow)
        try:
            trace = engine.folder / "shards.txt"
            wait_until(lambda: trace.exists(), what="a shard")
            cluster.head.kill()
            _, said = driver.communicate(timeout=60)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.communicate(timeout=30)
        assert driver.returncode == 1, said
        assert "the head of the Ray cluster has not answered for" in said
        assert heads(engine) == ["free"]
    done = engine.run(*slow, backend="local")
    assert done.returncode == 0, done.stderr
    made = record(engine, "spread")
    assert made["attempt"] >= 2 and made["pieces"]["taken_up"] >= 1 and made["result"] == sum(range(6))


@pytest.mark.slow
def test_task_that_runs_out_of_memory_is_tried_again_as_often_as_the_step_says(engine, cluster):
    """The node's memory monitor is told that more than a hundredth of the machine's memory is too much: it kills any task."""
    cluster.add_node(
        environment={"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "100"}, tight=1
    )
    done = engine.run("--how", "tight", backend="ray")
    assert done.returncode == 1, done.stderr
    assert "FAILED tight (attempt 2): OutOfMemoryError" in done.stderr
    (digest,) = [path.name for path in engine.store.glob(".marin/steps/*")]
    ended = [each for n in (1, 2) for each in events_of(engine, digest, n) if each["type"] == "ended"]
    assert [(each["infrastructure"], each["again"]) for each in ended] == [(True, True), (True, False)]
    assert all("OutOfMemoryError" in each["reason"] for each in ended)
