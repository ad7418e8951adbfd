"""Drivers killed in the middle of the chain, and two at once: nothing is lost, nothing is done twice, no bit differs."""

import json
import subprocess
from pathlib import Path

import pytest
from chain_store import ChainStore, kill_session, kill_when

pytestmark = pytest.mark.timeout(900)  # the first test of a session waits for the cold run

HERO_FILES = ("metrics.jsonl", "evals.jsonl", "run.json")


def arrays(store: ChainStore, record: dict) -> dict[str, dict]:
    """Returns the digest of every array in every checkpoint of a run."""
    output = store.output(record)
    found = {}
    for path in sorted(output.glob("checkpoints/*/checkpoint.json")):
        found[path.parent.name] = json.loads(path.read_text())["arrays"]
    return found


def read_arrays(store: ChainStore, record: dict) -> bytes:
    """Returns the bytes of the final checkpoint's arrays as tensorstore reads them, not as their description has them."""
    import jax
    import levanter.checkpoint
    import numpy as np
    from small_chain import HERO

    from steps.model.mesh import device_mesh
    from steps.train.language_model import OptimizerConfig
    from steps.train.step import initial_state

    path = store.output(record) / record["result"]["final_checkpoint"]
    with jax.set_mesh(device_mesh()):
        state = initial_state(HERO.model, OptimizerConfig(learning_rate=1.0, adam_learning_rate=1.0), 0)
        loaded = levanter.checkpoint.load_checkpoint(state, str(path))
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(loaded))


def attempts(store: ChainStore, digest: str) -> tuple[int, int]:
    """Returns the number of attempts of a step that began, and of those that were recorded."""
    folder = store.path / ".marin/steps" / digest / "attempts"
    began = {path.name.split("-")[0] for path in folder.glob("*.jsonl")}
    return len(began), len(list(folder.glob("*.record.json")))


def finish(drivers: list[subprocess.Popen[bytes]], logs: list[Path]) -> None:
    """Waits for drivers to end well."""
    try:
        codes = [driver.wait(timeout=840) for driver in drivers]
    finally:
        for driver in drivers:
            kill_session(driver)
    assert codes == [0] * len(drivers), "\n".join(log.read_text() for log in logs)


def test_driver_killed_in_fuzzy_dedup_same_command_keeps_shards_and_gives_the_same_output(finished, tmp_path):
    undisturbed = finished.record("dedup/fuzzy")
    digest, num_shards = undisturbed["digest"], undisturbed["pieces"]["made"]
    store = finished.copied_to(tmp_path / "store", without=("dedup/fuzzy",))
    log = tmp_path / "killed.log"
    driver = store.start("--until", "dedup/fuzzy", log=log)
    kill_when(driver, lambda: bool(store.pieces(digest, "shard")), log)
    committed = len(store.pieces(digest, "shard"))
    assert 0 < committed < num_shards
    resumed = store.call("run", "--until", "dedup/fuzzy")
    assert resumed.returncode == 0, resumed.stderr
    record = store.record("dedup/fuzzy")
    assert record["attempt"] == 2
    assert record["pieces"]["taken_up"] >= committed
    assert record["pieces"]["taken_up"] + record["pieces"]["made"] == num_shards
    assert record["output_digest"] == undisturbed["output_digest"]
    assert record["files"] == undisturbed["files"]
    # What was made from it is still made from exactly that, so nothing more has to run.
    assert {each["action"] for each in store.planned().values()} == {"REUSE"}


def test_driver_killed_in_hero_two_drivers_at_once_go_on_from_its_checkpoint_bit_for_bit(finished, tmp_path):
    undisturbed = finished.record("hero")
    dependants = ("forecast/score", "evaluate/hero-step-50", "report")
    store = finished.copied_to(tmp_path / "store", without=("hero", *dependants))
    log = tmp_path / "killed.log"
    driver = store.start(log=log)
    kill_when(driver, lambda: bool(store.pieces(undisturbed["digest"], "milestone")), log)
    published = len(store.pieces(undisturbed["digest"], "milestone"))
    assert 0 < published < len(undisturbed["milestones"])

    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    finish([store.start(log=log) for log in logs], logs)
    record = store.record("hero")
    assert record["measured"]["resumed_from_step"] >= 25
    assert record["pieces"]["taken_up"] >= published
    assert attempts(store, record["digest"]) == (2, 1)  # the killed one, and one of the two drivers'
    for name in dependants:
        assert attempts(store, store.record(name)["digest"]) == (1, 1)

    assert undisturbed["measured"]["resumed_from_step"] == 0
    assert record["output_digest"] == undisturbed["output_digest"]
    assert record["result"] == undisturbed["result"]
    for name in HERO_FILES:
        whole = (finished.output(undisturbed) / name).read_bytes()
        assert (store.output(record) / name).read_bytes() == whole, name
    assert len(arrays(store, record)) == len(undisturbed["milestones"])
    assert arrays(store, record) == arrays(finished, undisturbed)
    assert read_arrays(store, record) == read_arrays(finished, undisturbed)
    for name in dependants:
        assert store.record(name)["output_digest"] == finished.record(name)["output_digest"]


def test_two_drivers_at_once_on_an_empty_store_run_each_step_once(finished, tmp_path):
    store = ChainStore(path=tmp_path / "store", parameters=finished.parameters)
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    finish([store.start("--until", "dedup/exact", log=log) for log in logs], logs)
    listed = store.json("ls")["steps"]
    assert len(listed) == 7  # three sources, three data sets, and the judgement on them
    for row in listed:
        assert attempts(store, row["digest"]) == (1, 1), row["name"]
        assert store.record(row["name"])["output_digest"] == finished.record(row["name"])["output_digest"]
