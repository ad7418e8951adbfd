"""Training as a gang step on Ray: two processes that train one model, and what is left when one of them is killed."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine import EXPERIMENTS, Engine

from steps.train.content import content_digest
from tests.steps.train.rank_process import RankEnd, ended, start_rank
from tests.steps.train.training_runs import tiny_config, write_inputs

CHANGES = {"num_steps": 12, "log_every": 1}
pytestmark = pytest.mark.timeout(600)


@dataclasses.dataclass
class Training:
    """One small run: its inputs, and the end of it where nobody is killed."""

    arguments: tuple[str, ...]
    killed: Path
    whole: Path
    end_of_whole: Callable[[], RankEnd]


@pytest.fixture
def training(tmp_path) -> Training:
    inputs, compiled, whole = write_inputs(tmp_path / "inputs"), tmp_path / "compiled", tmp_path / "whole"
    described, killed = tmp_path / "described.json", tmp_path / "killed"
    described.write_text(json.dumps(dataclasses.asdict(tiny_config(inputs, **CHANGES))))
    # In one process with two devices: as good as two ranks, to the last bit, and a process less to start.
    given = {"inputs": inputs, "path": str(whole), "rank": 0, "num_ranks": 1, "coordinator": ""}
    undisturbed = start_rank(compiled, devices=2, changes=CHANGES, **given)
    return Training(
        ("--described", str(described), "--compiled", str(compiled)), killed, whole, lambda: ended(undisturbed, 500)
    )


def record_of_killed_run(engine: Engine, training: Training) -> dict[str, Any]:
    """Runs it with a rank that is killed in mid-training, and returns the record of the attempt that ended well."""
    engine.experiment = EXPERIMENTS / "ranks.py"
    killed = ("--killed", str(training.killed))
    done = engine.call("run", "--backend", "ray", *training.arguments, *killed, timeout=500)
    assert done.returncode == 0, done.stderr
    assert training.killed.exists() and "rank 1: WorkerCrashedError" in done.stderr
    record = json.loads(engine.call("show", "ranks", "--json").stdout)["record"]
    assert record["attempt"] == 2 and record["chain"] == 1 and record["resources"]["ranks"] == 2
    assert record["measured"]["resumed_from_step"] == 6 and record["measured"]["num_devices"] == 2
    end = training.end_of_whole()
    assert end.returncode == 0, end.output[-3000:]
    return record


@pytest.mark.slow
def test_rank_killed_in_mid_training_the_next_attempt_ends_with_the_same_bits(engine, training):
    record = record_of_killed_run(engine, training)
    assert content_digest(f"{engine.store}/{record['output_path']}") == content_digest(str(training.whole))
    # One process is as good: the number of ranks is no identity.
    (step,) = json.loads(engine.call("plan", "--json", *training.arguments, "--ranks", "1").stdout)["steps"]
    assert step["action"] == "REUSE"
