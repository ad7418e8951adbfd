"""A tracker that does not start, whatever the reason, costs a bounded time and a line of progress, never the run."""

import os
import time

import wandb
from levanter.tracker import NoopTracker

from steps.files import names_in
from steps.train.tracking import run_tracker
from tests.directory_out import DirectoryOut
from tests.steps.train.training_runs import tiny_config

INPUTS = dict.fromkeys(("tokens", "mixture", "evaluation"), "unread")


def follow(out, **changes):
    """The tracker that a config gets, after a row was sent through it."""
    with run_tracker(tiny_config(INPUTS, **changes), out, {"width": 16}) as tracker:
        tracker.log({"train/loss": 1.0}, step=1)
    return tracker


def test_tracker_unreachable_server_falls_back_to_offline_in_bounded_time(unreachable_wandb, tmp_path):
    out, started = DirectoryOut(tmp_path), time.monotonic()
    follow(out, wandb_mode="auto", wandb_timeout_seconds=1.0)
    assert time.monotonic() - started < 30
    (line,) = out.messages
    assert line.startswith("W&B online did not start (CommError: ") and line.endswith("; going on with offline")
    assert os.environ["WANDB_API_KEY"] not in line
    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))


def test_tracker_key_that_is_none_falls_back_to_offline(unreachable_wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "bad")
    out = DirectoryOut(tmp_path)
    follow(out, wandb_mode="online")
    (line,) = out.messages
    assert line.startswith("W&B online did not start (AuthenticationError: ")
    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))


def test_tracker_that_starts_in_no_mode_leaves_the_run_without(tmp_path, monkeypatch):
    def broken(**settings):
        raise OSError(f"no room for {settings['mode']} files")

    monkeypatch.setattr(wandb, "init", broken)
    out = DirectoryOut(tmp_path)
    assert isinstance(follow(out, wandb_mode="online"), NoopTracker)
    assert out.messages == [
        "W&B online did not start (OSError: no room for online files); going on with offline",
        "W&B offline did not start (OSError: no room for offline files); going on with no tracker",
    ]


def test_tracker_gets_names_that_it_takes_however_long_the_steps_is(tmp_path, monkeypatch):
    asked = []

    def refuse(**settings):
        asked.append((settings["name"], settings["group"]))
        raise OSError("enough")

    monkeypatch.setattr(wandb, "init", refuse)
    names = ["short/name", f"ladder/{'x' * 150}-a", f"ladder/{'x' * 150}-b", "y" * 200]
    for name in names:
        follow(DirectoryOut(tmp_path, name), wandb_mode="offline")
    given = [name for name, _ in asked]
    assert given[0] == names[0] and asked[1][1] == "ladder"
    assert len(set(given)) == len(names)
    assert all(0 < len(text) <= 128 for pair in asked for text in pair)  # W&B's limit


def test_tracker_of_a_remote_output_leaves_its_files_there_and_none_here(remote, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    out = DirectoryOut(tmp_path)
    out.path = remote
    follow(out, wandb_mode="auto")
    assert not out.messages and not list(tmp_path.iterdir())
    (run,) = names_in(f"{remote}/wandb")
    assert run.startswith("offline-run-")
    assert [name for name in names_in(f"{remote}/wandb/{run}") if name.endswith(".wandb")]


def test_tracker_that_is_off_says_nothing(tmp_path):
    out = DirectoryOut(tmp_path)
    assert isinstance(follow(out, wandb_mode="disabled"), NoopTracker)
    assert not out.messages and not list(tmp_path.iterdir())
