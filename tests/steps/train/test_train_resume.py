"""Runs of the real step: what it writes, that equal runs are equal, and that interrupted ones end as if they had not been."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from marin_exec import ConfigError, StepFailed
from marin_exec.store import split_result
from steps.evaluate.checkpoint import CheckpointEvaluationConfig, evaluate_checkpoint
from steps.train.cadence import due_steps
from steps.train.content import content_digest
from steps.train.language_model import train_language_model
from steps.train.optimizer import LearningRates
from steps.train.threads import UNSPLIT_PRODUCTS
from tests.directory_out import DirectoryOut
from tests.steps.train.training_runs import LastingOut, logs, rows, tiny_config, write_inputs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def whole(inputs, compiled, tmp_path_factory):
    """The uninterrupted run that others are compared with: (path, result)."""
    path = tmp_path_factory.mktemp("whole")
    return path, train_language_model(tiny_config(inputs), DirectoryOut(path))


class Interrupted(Exception):
    pass


class InterruptedOut(LastingOut):
    """Raises at the progress message of one update, after its checkpoint (if any) is published."""

    stop_at = 0

    def progress(self, message, *, done=None, total=None):
        if done == self.stop_at:
            raise Interrupted
        super().progress(message, done=done, total=total)


def test_train_writes_a_row_an_update_and_an_evaluation_a_quarter(whole):
    path, result = whole
    metrics, evals = rows(path, "metrics.jsonl"), rows(path, "evals.jsonl")
    assert [row["step"] for row in metrics] == list(range(1, 13))
    assert [(row["step"], row["progress"]) for row in evals] == [(3, 0.25), (6, 0.5), (9, 0.75), (12, 1.0)]
    last = metrics[-1]
    assert last["tokens"] == 12 * 4 * 16 == result.tokens and last["flops"] == result.flops
    assert last["loss"] == pytest.approx(last["cross_entropy"] + last["z_loss"], abs=1e-5)
    assert metrics[0]["cross_entropy"] == pytest.approx(math.log(1000), abs=0.3)
    assert sum(row["dropped_assignments"] for row in metrics) > 0 and 0 < result.drop_fraction < 0.3
    assert all(0 < row["router_entropy"] <= math.log(4) + 1e-3 for row in metrics)
    assert last["router_bias_max"] > 0 == metrics[0]["router_bias_max"]
    assert result.macro_loss == evals[-1]["macro_loss"]
    assert result.macro_loss == pytest.approx(sum(each["loss"] for each in evals[-1]["sets"].values()) / 2)
    assert (
        result.final_checkpoint == "checkpoints/step-12" and (path / result.final_checkpoint / "metadata.json").exists()
    )
    assert len(rows(path, "timings.jsonl")) == 12


def test_train_twice_gives_the_same_bits_in_other_files(whole, inputs, tmp_path):
    path, result = whole
    again = train_language_model(tiny_config(inputs, log_every=5), DirectoryOut(tmp_path))
    assert logs(tmp_path) == logs(path)
    assert content_digest(str(tmp_path)) == content_digest(str(path))
    assert split_result(again)[0] == split_result(result)[0]
    names = [{each.name for each in (root / "checkpoints/step-12/d").iterdir()} for root in (path, tmp_path)]
    assert names[0] != names[1], "if checkpoint files are byte-stable now, the content digest can go"


def test_train_other_seed_gives_another_digest(whole, inputs, tmp_path):
    train_language_model(tiny_config(inputs, seed=1), DirectoryOut(tmp_path))
    assert content_digest(str(tmp_path)) != content_digest(str(whole[0]))


@pytest.mark.parametrize("stop_at", [2, 3, 7, 12])
def test_train_interrupted_and_resumed_equals_uninterrupted(whole, inputs, tmp_path, stop_at):
    out = InterruptedOut(tmp_path)
    out.stop_at = stop_at
    with pytest.raises(Interrupted):
        train_language_model(tiny_config(inputs), out)
    result = train_language_model(tiny_config(inputs), LastingOut(tmp_path))
    assert result.resumed_from_step == stop_at // 3 * 3
    assert logs(tmp_path) == logs(whole[0])
    assert content_digest(str(tmp_path)) == content_digest(str(whole[0]))


KILLED = """
import os, signal, sys, types
tests = types.ModuleType("tests"); tests.__path__ = [sys.argv[1] + "/tests"]; sys.modules["tests"] = tests
import json
from steps.train.language_model import train_language_model
from tests.steps.train.training_runs import LastingOut, tiny_config
class Out(LastingOut):
    def progress(self, message, *, done=None, total=None):
        if done == 7:
            os.kill(os.getpid(), signal.SIGKILL)
train_language_model(tiny_config(json.loads(sys.argv[3])), Out(sys.argv[2]))
"""


def test_train_killed_process_is_resumed_by_another_bit_for_bit(whole, inputs, compiled, tmp_path):
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", KILLED, root, str(tmp_path), json.dumps(inputs)]
    env = os.environ | {"PYTHONPATH": root, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": UNSPLIT_PRODUCTS}
    env["JAX_COMPILATION_CACHE_DIR"] = str(compiled)
    assert whole[1].reproducible_products, "other processes can only give the same bits if products are not split"
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert not (tmp_path / "run.json").exists() and len(rows(tmp_path, "metrics.jsonl")) == 7
    result = train_language_model(tiny_config(inputs), LastingOut(tmp_path))
    assert result.resumed_from_step == 6
    assert logs(tmp_path) == logs(whole[0])
    assert content_digest(str(tmp_path)) == content_digest(str(whole[0]))


def published_copy(whole: Path, path: Path, steps: tuple[int, ...]) -> LastingOut:
    for step in steps:
        shutil.copytree(whole / f"checkpoints/step-{step}", path / f"checkpoints/step-{step}")
    out = LastingOut(path)
    for step in steps:
        out.publish(f"checkpoints/step-{step}")
    return out


def test_train_missing_earlier_checkpoint_is_refused(whole, inputs, tmp_path):
    out = published_copy(whole[0], tmp_path, (3, 9))
    with pytest.raises(StepFailed, match="hold the metrics of 6 updates, 9 are needed"):
        train_language_model(tiny_config(inputs), out)


def test_train_checkpoint_with_other_arrays_is_refused(whole, inputs, tmp_path):
    out = published_copy(whole[0], tmp_path, (3,))
    described = json.loads((whole[0] / "checkpoints/step-6/checkpoint.json").read_text())
    (tmp_path / "checkpoints/step-3/checkpoint.json").write_text(json.dumps(described))
    with pytest.raises(StepFailed, match=r"array .* was saved"):
        train_language_model(tiny_config(inputs), out)


def test_train_loss_that_is_not_finite_names_the_update(inputs, tmp_path, monkeypatch):
    def exploding(config, step, num_steps):
        return LearningRates(0.1, 1e38 if step >= 4 else 0.02)

    monkeypatch.setattr("steps.train.loop.learning_rates", exploding)
    out = LastingOut(tmp_path)
    with pytest.raises(StepFailed, match=r"update [5-9] of 12 gave .*not finite.*the update before had loss \d"):
        train_language_model(tiny_config(inputs), out)
    kept = rows(tmp_path, "metrics.jsonl")
    assert len(kept) >= 4 and all(math.isfinite(row["loss"]) for row in kept)
    assert next(each.name for each in out.milestones("checkpoints/")) == "checkpoints/step-3"


def test_train_offline_tracker_changes_no_result(whole, inputs, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    train_language_model(tiny_config(inputs, wandb_mode="auto"), DirectoryOut(tmp_path, "ladder/d16"))
    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]  # an output must stay whole when moved
    assert content_digest(str(tmp_path)) == content_digest(str(whole[0]))


def test_train_with_a_key_but_no_server_ends_with_the_same_bits(whole, inputs, tmp_path, unreachable_wandb):
    out = DirectoryOut(tmp_path, "ladder/d16")
    train_language_model(tiny_config(inputs, wandb_mode="auto", wandb_timeout_seconds=1.0), out)
    assert [line for line in out.messages if "W&B online did not start" in line]
    assert content_digest(str(tmp_path)) == content_digest(str(whole[0]))


@pytest.mark.parametrize("step", [6, 12])
def test_evaluate_checkpoint_equals_the_runs_own_evaluation(whole, inputs, tmp_path, step):
    config = CheckpointEvaluationConfig(
        checkpoint=f"{whole[0]}/checkpoints/step-{step}", evaluation=inputs["evaluation"]
    )
    result = evaluate_checkpoint(config, DirectoryOut(tmp_path))
    (expected,) = [row for row in rows(whole[0], "evals.jsonl") if row["step"] == step]
    assert result.step == step and result.num_sets == 2
    for name in ("macro_loss", "micro_loss", "macro_bpb", "micro_bpb"):
        assert getattr(result, name) == expected[name]
    page = json.loads((tmp_path / "evaluation.json").read_text())
    assert page["tagged"]["eval_dropless/code/loss"] == expected["sets"]["code"]["loss"]


def test_evaluate_path_without_a_checkpoint_is_refused(inputs, tmp_path):
    config = CheckpointEvaluationConfig(checkpoint=str(tmp_path), evaluation=inputs["evaluation"])
    with pytest.raises(StepFailed, match=r"checkpoint.json is missing; .* is needed"):
        evaluate_checkpoint(config, DirectoryOut(tmp_path))


@pytest.mark.parametrize(
    ("num_steps", "every", "expected"),
    [(400, 0.25, [100, 200, 300, 400]), (10, 0.3, [3, 6, 9, 10]), (3, 0.05, [1, 2, 3]), (7, 1.0, [7])],
)
def test_due_steps_are_shares_of_the_run_and_its_end(num_steps, every, expected):
    assert due_steps(num_steps, every) == expected


def test_due_steps_for_every_twentieth_are_twenty_even_points():
    due = due_steps(403, 0.05)
    assert (
        len(due) == 20 and due[-1] == 403 and all(abs(step - 403 * (i + 1) / 20) <= 0.5 for i, step in enumerate(due))
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_steps": 0}, "num_steps is 0; at least 1"),
        ({"evaluate_every": 0.0}, "evaluate_every is 0.0; a share"),
        ({"wandb_mode": "on"}, 'wandb_mode is "on"'),
    ],
)
def test_train_config_impossible_value_is_refused(inputs, change, message):
    with pytest.raises(ConfigError, match=message):
        tiny_config(inputs, **change)
