"""The command line over stores on Google Cloud Storage and S3, as a user has it; and what is said of stores that won't do."""

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from engine import EXPERIMENTS, Engine
from servers.object_stores import BUCKET, ObjectStoreServer
from waiting import wait_until

from marin_exec.errors import StoreError
from marin_exec.store import Store, check_writable, clients
from marin_exec.store.pieces import pieces

EXPERIMENT = EXPERIMENTS / "remote.py"


@pytest.fixture(params=["gcs", "s3"])
def server(request: pytest.FixtureRequest) -> ObjectStoreServer:
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def remote(server: ObjectStoreServer, tmp_path: Path) -> Engine:
    return on_server(server, server.new_prefix(), tmp_path)


def on_server(server: ObjectStoreServer, prefix: str, folder: Path) -> Engine:
    environment = {**server.environment, "MARIN_PREFIX": prefix}
    return Engine(folder, experiment=EXPERIMENT, environment=environment)


def shown(engine: Engine, artifact: str) -> dict:
    answer = engine.call("show", artifact, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_run_rerun_and_every_reading_verb(remote: Engine) -> None:
    prefix = remote.environment["MARIN_PREFIX"]
    assert json.loads(remote.call("plan", "--json").stdout)["counts"] == {"RUN": 2}
    done = remote.run()
    assert done.returncode == 0, done.stderr
    path = done.stdout.split("\t")[1].strip()
    assert path.startswith(f"{prefix}/words/count-")
    again = remote.run()
    assert again.returncode == 0 and "2 REUSE; nothing to run" in again.stderr
    assert sorted(remote.ran()) == ["count", "part-0", "part-1", "part-2"]

    assert shown(remote, "words/count")["record"]["result"] == 6
    parts = json.loads(remote.call("ls", "--json").stdout)["steps"][0]
    assert (parts["name"], parts["files"]) == ("words/parts", 4)
    weights = f"{prefix}/{parts['output']}/weights/step 1/x?.bin"
    elsewhere = {**remote.environment, "MARIN_PREFIX": str(remote.folder / "empty")}
    by_url = Engine(remote.folder, remote.experiment, elsewhere)  # the store is found from the URL alone
    found = shown(by_url, weights)
    assert found["sub_path"] == "weights/step 1/x?.bin" and found["record"]["name"] == "words/parts"
    lineage = by_url.call("lineage", path)
    assert lineage.returncode == 0 and "words/parts" in lineage.stdout
    assert "done" in remote.call("status").stdout
    lost = by_url.call("show", f"{server_root(prefix)}/nowhere/x-{'0' * 16}/a1-00000000")
    assert lost.returncode == 1 and "no folder above it is a store" in lost.stderr


def server_root(prefix: str) -> str:
    return "/".join(prefix.split("/")[:3])


def test_lost_data_is_named_and_only_its_step_runs_again(remote: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert remote.run().returncode == 0
    for name, value in remote.environment.items():
        monkeypatch.setenv(name, value)
    store = Store.open(remote.environment["MARIN_PREFIX"])
    parts = shown(remote, "words/parts")["record"]
    store.fs.rm_file(f"{store.url(parts['output_path'])}/parts/1.txt")
    plan = json.loads(remote.call("plan", "--json", "--force", "words/count").stdout)
    reasons = {step["name"]: step["reason"] for step in plan["steps"]}
    assert "data gone or damaged: parts/1.txt (missing)" in reasons["words/parts"]


def test_output_digests_are_those_of_a_local_store(remote: Engine, tmp_path: Path) -> None:
    local = Engine(tmp_path / "local", experiment=EXPERIMENT)
    local.folder.mkdir()
    assert remote.run().returncode == 0 and local.run().returncode == 0
    for name in ("words/parts", "words/count"):
        there, here = shown(remote, name)["record"], shown(local, name)["record"]
        assert there["output_digest"] == here["output_digest"] and there["files"] == here["files"]
        assert there["digest"] == here["digest"]


def test_drivers_started_together_run_each_step_once(remote: Engine) -> None:
    drivers = [
        subprocess.Popen(
            remote.command("run", "--backend", "local"), env=remote.env(), stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [driver.communicate(timeout=120)[1] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0] * 3, said
    assert sorted(remote.ran()) == ["count", "part-0", "part-1", "part-2"]


@pytest.mark.slow
def test_workers_of_a_cluster_that_a_run_starts_reach_the_store(s3_server: ObjectStoreServer, tmp_path: Path) -> None:
    engine = on_server(s3_server, s3_server.new_prefix(), tmp_path)
    done = engine.run(backend="ray")
    assert done.returncode == 0, done.stderr
    assert sorted(engine.ran()) == ["count", "part-0", "part-1", "part-2"]


@pytest.mark.slow
def test_run_on_ray_whose_driver_is_killed_is_ended_by_the_next_with_the_same_output(
    server: ObjectStoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, whole = (on_server(server, server.new_prefix(), tmp_path / name) for name in ("killed", "whole"))
    for each in (engine, whole):
        each.folder.mkdir()
    released = tmp_path / "go"
    engine.environment["CHAIN_HOLD"] = str(released)
    driver = engine.start("--backend", "ray")
    wait_until(lambda: set(engine.ran()) == {"part-0", "part-1", "part-2"}, what="all parts to have begun")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    store = Store.open(engine.environment["MARIN_PREFIX"])
    (digest,) = store.known_digests()
    wait_until(lambda: len(pieces(store, digest, 1, "shard")) == 2, what="two parts to be committed")
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=60)
    released.touch()
    again = engine.run(backend="ray")
    assert again.returncode == 0, again.stderr
    ran = Counter(
        engine.ran()
    )  # the last part may have been committed by its worker, before that noticed the driver's end
    assert ran.pop("part-2") in (1, 2) and ran == {"part-0": 1, "part-1": 1, "count": 1}
    assert whole.run().returncode == 0
    for name in ("words/parts", "words/count"):
        assert shown(engine, name)["record"]["output_digest"] == shown(whole, name)["record"]["output_digest"]
    assert engine.call("verify", "--all").returncode == 0


def test_bucket_that_is_not_there_is_named_with_what_to_do(server: ObjectStoreServer, tmp_path: Path) -> None:
    engine = on_server(server, f"{server.scheme}://no-such-bucket/x", tmp_path)
    for answer in (engine.call("plan"), engine.run()):
        assert answer.returncode == 1
        assert f"{server.scheme}://no-such-bucket: there is no such bucket; create it" in answer.stderr
        assert "Traceback" not in answer.stderr


def test_server_that_does_not_answer_is_named(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "RETRY_SECONDS", 0.5)
    for name, value in {**server.environment, "MARIN_PREFIX": ""}.items():
        endpoint = value.startswith("http")  # of which nobody listens at the discard port
        monkeypatch.setenv(name, "http://127.0.0.1:9" if endpoint else value)
    store = Store.open(f"{server.scheme}://{BUCKET}/x")
    where = f"{server.scheme}://{BUCKET}: not reached: "
    with pytest.raises(StoreError, match=rf"store {store.prefix}: cannot read .*{where}.*127.0.0.1"):
        store.known_digests()
    with pytest.raises(StoreError, match=rf"store {store.prefix}: cannot be written: {where}.*127.0.0.1"):
        check_writable(store)


def test_store_without_credentials_says_how_to_give_some(s3_server: ObjectStoreServer, tmp_path: Path) -> None:
    engine = on_server(s3_server, s3_server.new_prefix(), tmp_path)
    home = {"HOME": str(tmp_path), "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    engine.environment.update(home)
    answer = engine.call("ls")
    assert answer.returncode == 1
    assert "Unable to locate credentials. Give credentials as for any AWS tool (AWS_ACCESS_KEY_ID" in answer.stderr
