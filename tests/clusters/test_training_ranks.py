"""Training as a gang step on a real cluster: two processes that train one model, and what is left when one of them is killed."""

import dataclasses
import json
from pathlib import Path

import pytest
from engine import EXPERIMENTS

from steps.train.content import content_digest
from tests.steps.train.rank_process import ended, start_rank
from tests.steps.train.training_runs import logs, tiny_config, write_inputs

CHANGES = {"num_steps": 12, "log_every": 1}
pytestmark = pytest.mark.timeout(600)


def test_rank_killed_in_mid_training_the_next_attempt_ends_with_the_same_bits(engine, tmp_path):
    inputs, compiled, killed = write_inputs(tmp_path / "inputs"), tmp_path / "compiled", tmp_path / "killed"
    # Undisturbed, in one process with two devices: as good as two ranks, to the last bit, and a process less to start.
    whole = {"inputs": inputs, "path": str(tmp_path / "whole"), "rank": 0, "num_ranks": 1, "coordinator": ""}
    undisturbed = start_rank(compiled, devices=2, changes=CHANGES, **whole)
    engine.experiment = EXPERIMENTS / "ranks.py"
    described = tmp_path / "described.json"
    described.write_text(json.dumps(dataclasses.asdict(tiny_config(inputs, **CHANGES))))
    arguments = ("--described", str(described), "--compiled", str(compiled), "--killed", str(killed))
    done = engine.call("run", "--backend", "ray", *arguments, timeout=500)
    assert done.returncode == 0, done.stderr
    assert killed.exists() and "rank 1: WorkerCrashedError" in done.stderr
    shown = json.loads(engine.call("show", "ranks", "--json").stdout)
    record = shown["record"]
    assert record["attempt"] == 2 and record["chain"] == 1 and record["resources"]["ranks"] == 2
    assert record["measured"]["resumed_from_step"] == 6 and record["measured"]["num_devices"] == 2
    end = ended(undisturbed)
    assert end.returncode == 0, end.output[-3000:]
    output = engine.store / record["output_path"]
    assert logs(output) == logs(Path(whole["path"]))
    assert content_digest(str(output)) == content_digest(whole["path"])
    # One process is as good: the number of ranks is no identity.
    (step,) = json.loads(engine.call("plan", "--json", "--described", str(described)).stdout)["steps"]
    assert step["action"] == "REUSE"
