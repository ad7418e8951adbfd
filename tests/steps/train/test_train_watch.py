"""What a run that watches writes and tracks, and that it survives interruption as losses do."""

import json
import math
import struct
import zlib
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from steps.mix.evaluation_sets import evaluation_batches
from steps.train.content import content_digest
from steps.train.language_model import train_language_model
from steps.train.load_image import load_image
from steps.train.public_names import public_row
from steps.train.watch_config import SpikeConfig, WatchConfig
from tests.directory_out import DirectoryOut
from tests.steps.train.test_train_resume import Interrupted, InterruptedOut
from tests.steps.train.training_runs import MODEL, LastingOut, rows, tiny_config, write_inputs

WATCH = WatchConfig(every=5, by_layer=True, load_sequences=3, seen_sequences=6, with_drops_until=0.5)
FILES = ("metrics.jsonl", "evals.jsonl", "watch.jsonl", "expert_loads.jsonl", "run.json")


def watching_config(inputs):
    config = tiny_config(inputs, spikes=SpikeConfig(window=4, deviations=1.0), watch=WATCH, peak_flops=1e12)
    return replace(config, optimizer=replace(config.optimizer, gate_router_decay=0.1))


class Recorder:
    """Stands for a tracker."""

    def __init__(self):
        self.logged: dict[int, dict] = {}

    def log(self, values, *, step):
        assert all(isinstance(value, (int, float)) for value in values.values())
        self.logged.setdefault(step, {}).update(values)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def watched(inputs, compiled, tmp_path_factory):
    """A run in one go: (path, result, what its tracker got)."""
    path, recorder = tmp_path_factory.mktemp("watched"), Recorder()

    @contextmanager
    def recording(*_):
        yield recorder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steps.train.loop.run_tracker", recording)
        result = train_language_model(watching_config(inputs), DirectoryOut(path))
    return path, result, recorder.logged


def test_spikes_that_are_left_out_change_no_parameter(watched):
    metrics = rows(watched[0], "metrics.jsonl")
    skipped = [row["step"] for row in metrics if row["skipped_step"]]
    assert skipped and skipped[0] > 2 and len(skipped) < 10
    assert metrics[0]["skip_step_loss_threshold"] is None and metrics[-1]["skip_step_loss_threshold"] > 0
    for row, after in pairwise(metrics):
        assert (row["parameter_norm"] == after["parameter_norm"]) == bool(row["skipped_step"])
        assert row["router_bias_max"] != after["router_bias_max"]


def test_watch_rows_come_every_so_often_under_public_names(watched):
    found, metrics = rows(watched[0], "watch.jsonl"), rows(watched[0], "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 5, 10]
    for row in found:
        update = metrics[row["step"] - 1]
        assert (
            row["train/loss"] == update["loss"] == pytest.approx(row["train/cross_entropy_loss"] + row["train/z_loss"])
        )
        assert row["grad/norm/total"] == pytest.approx(update["grad_norm"], rel=1e-6)
        assert row["grad/norm/lm_head"] == pytest.approx(update["grad_norm_lm_head"], rel=1e-6)
        parts = [value for name, value in row.items() if name.startswith("params/norm/") and "total" not in name]
        assert len(parts) == 17 and math.hypot(*parts) == pytest.approx(row["params/norm/total"], rel=1e-6)
        layers = [row[f"train/router/layer_{layer}/routing_entropy"] for layer in range(2)]
        assert sum(layers) / 2 == pytest.approx(update["router_entropy"])
        assert row["train/router/routing_entropy_share"] == pytest.approx(update["router_entropy"] / math.log(4))
        assert [sum(row[f"train/router/layer_{layer}/routing_hist"]) for layer in range(2)] == [2 * 4 * 16] * 2
        assert np.hypot(*row["grad/norm_by_layer/layers.w_q"]) == pytest.approx(row["grad/norm/layers.w_q"], rel=1e-6)
    hyperball = [
        [row[f"params/norm/{name}"] for row in found] for name in ("layers.expert_up", "layers.w_q", "lm_head")
    ]
    np.testing.assert_allclose(hyperball, np.array(hyperball)[:, :1].repeat(3, 1), rtol=1e-5)
    assert all(row["updates/norm/layers.w_q"] > 0 for row in found)
    assert found[-1]["opt_state/norm/muon_h.momentum.layers.w_q"] > 0 == found[0]["opt_state/norm/total"]
    assert found[0]["mixture/stage"] == 0 and sum(
        v for k, v in found[0].items() if "mixture/weight" in k
    ) == pytest.approx(1)
    assert not [name for name in found[1] if "mixture/weight" in name]


def test_watch_first_norms_are_those_of_the_initial_parameters(watched):
    from steps.model.parameters import initial_parameters

    row, parameters = rows(watched[0], "watch.jsonl")[0], initial_parameters(MODEL, 0)
    for name in ("token_embedding", "lm_head"):
        assert row[f"params/norm/{name}"] == pytest.approx(np.linalg.norm(parameters[name]), rel=1e-6)
    by_layer = np.linalg.norm(parameters["layers"]["expert_gate"].reshape(2, -1), axis=1)
    assert row["params/norm_by_layer/layers.expert_gate"] == pytest.approx(by_layer, rel=1e-6)


def test_evaluations_tell_losses_as_trained_early_and_of_what_was_seen(watched):
    evals = rows(watched[0], "evals.jsonl")
    assert ["with_drops" in row for row in evals] == [True, True, False, False]
    assert [row["seen"]["steps"][0] for row in evals] == [1] * 4 and evals[-1]["seen"]["steps"][1] == 11
    assert all(0 < row["seen"]["loss"] < 8 for row in evals)


def test_expert_loads_count_each_sets_choices(watched, inputs):
    sets = evaluation_batches(inputs["evaluation"], 16)
    valid = [int((sets[name].segment_ids[:3, :16] >= 0).sum()) for name in ("code", "manual")]
    for row in rows(watched[0], "expert_loads.jsonl"):
        counts = np.array(row["counts"])
        assert row["sets"] == ["code", "manual"] and counts.shape == (2, 4, 2)
        np.testing.assert_array_equal(counts.sum(axis=1), [[2 * each for each in valid]] * 2)
    assert (watched[0] / "expert_loads.png").read_bytes() == load_image(counts)


def test_load_image_shades_go_by_the_share_of_each_set():
    counts = np.array([[[0, 4], [4, 4]], [[2, 0], [2, 0]]])
    picture = load_image(counts)
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    length = struct.unpack(">I", picture[33:37])[0]
    pixels = np.frombuffer(zlib.decompress(picture[41 : 41 + length]), np.uint8).reshape(height, width + 1)[:, 1:]
    assert (width, height) == (24, 50)
    np.testing.assert_array_equal(
        pixels[[6, 18, 25, 32, 44]][:, [6, 18]], [[255, 128], [0, 128], [0, 0], [128, 255], [128, 255]]
    )


def test_tracker_gets_the_public_names(watched):
    logged = watched[2]
    wanted = (
        "train/loss", "train/cross_entropy_loss", "train/z_loss", "optim/learning_rate", "optim/adam_lr", "optim/skipped_step",
        "grad/norm/total", "params/norm/total", "train/router/routing_entropy_mean", "train/router/load_balancing_loss",
        "train/router/router_z_loss", "train/router/capacity_overflow_rate_mean", "train/router/bias_max",
        "train/router/bias_min", "moe/drop_fraction", "moe/dropped_assignments", "throughput/duration",
        "throughput/loading_time", "throughput/hook_time", "throughput/iteration_time", "throughput/checkpoint_time",
        "throughput/tokens_per_second", "throughput/examples_per_second", "throughput/gflops_per_second", "throughput/mfu",
        "throughput/total_tokens", "throughput/total_gflops", "throughput/flops_per_token_analytic",
        "throughput/flops_per_example_analytic", "memory/peak_gib", "run_progress", "global_step", "mixture/stage",
    )  # fmt: skip
    assert sorted(logged) == list(range(1, 13))
    for step, values in logged.items():
        assert not [name for name in wanted if name not in values], step
    assert "optim/skip_step_loss_threshold" in logged[12] and "optim/skip_step_loss_threshold" not in logged[1]
    assert {"eval/macro_loss", "eval_dropless/macro_loss", "eval_dropless/code/bpb", "eval_dropless/seen/loss"} < set(
        logged[3]
    )
    assert not [name for name in logged[12] if name.startswith("eval/")]
    assert logged[10]["train/router/layer_1/routing_entropy"] > 0


def test_timings_divide_each_iteration(watched):
    path, result, _ = watched
    for row in rows(path, "timings.jsonl"):
        parts = [row[name] for name in ("data", "update", "evaluation", "checkpoint", "hooks")]
        assert min(parts) >= 0 and sum(parts) <= row["seconds"] + 1e-4
    assert result.tokens_per_second > 0 and result.seconds_by_part["update"] >= result.first_update_seconds - 1e-3


def test_public_row_leaves_out_what_is_not_known_yet():
    assert public_row({"step": 3, "skip_step_loss_threshold": None, "flops": 2e9}) == {
        "global_step": 3,
        "throughput/total_gflops": 2.0,
    }


@pytest.mark.parametrize("stop_at", [4, 8])
def test_watching_run_interrupted_and_resumed_equals_uninterrupted(watched, inputs, tmp_path, stop_at):
    out = InterruptedOut(tmp_path)
    out.stop_at = stop_at
    with pytest.raises(Interrupted):
        train_language_model(watching_config(inputs), out)
    result = train_language_model(watching_config(inputs), LastingOut(tmp_path))
    assert result.resumed_from_step == stop_at // 3 * 3
    for name in FILES:
        assert (tmp_path / name).read_text() == (watched[0] / name).read_text(), name
    assert content_digest(str(tmp_path)) == content_digest(str(watched[0]))


@pytest.mark.slow
def test_watch_changes_the_content_but_no_loss(watched, inputs, tmp_path):
    config = replace(watching_config(inputs), watch=None)
    train_language_model(config, DirectoryOut(tmp_path))
    assert (tmp_path / "metrics.jsonl").read_text() == (watched[0] / "metrics.jsonl").read_text()
    assert json.loads((tmp_path / "run.json").read_text()).keys() == json.loads(
        (watched[0] / "run.json").read_text()
    ).keys() - {"watch"}
    assert content_digest(str(tmp_path)) != content_digest(str(watched[0]))
