"""Sends a run's numbers to Levanter's trackers (Weights & Biases), beside the run's own JSON lines.

A tracker is for looking at; it may fail, be off, or miss steps without any effect on the run. Offline by default:
nothing leaves the machine unless WANDB_API_KEY is set or the config says so.
"""

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from levanter.tracker import NoopTracker, Tracker
from levanter.tracker.background import maybe_wrap_background

from marin_exec import Out
from steps.train.language_model import TrainConfig


@contextmanager
def run_tracker(config: TrainConfig, out: Out, hyperparameters: Mapping[str, Any]) -> Generator[Tracker]:
    """Yields the tracker of one attempt, and finishes it.

    Args:
        config: its `wandb_*` fields decide where the numbers go.
        out: the attempt; its step's name becomes the run's.
        hyperparameters: plain values, kept with the run.
    """
    mode = config.wandb_mode
    if mode == "auto":
        mode = "online" if os.environ.get("WANDB_API_KEY") else "offline"
    if mode == "disabled":
        yield NoopTracker()
        return
    directory = config.wandb_directory or (out.path if "://" not in out.path else None)
    tracker = _wandb_tracker(config, out, directory, mode, hyperparameters)
    try:
        yield tracker
    finally:
        tracker.finish()
        if directory is not None:
            _remove_links(Path(directory) / "wandb")


def _remove_links(folder: Path) -> None:
    """Removes W&B's links, to its latest run and to logs of its service: absolute ones, which would break when the output is moved or copied."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            path.unlink()


def _wandb_tracker(
    config: TrainConfig, out: Out, directory: str | None, mode: str, hyperparameters: Mapping[str, Any]
) -> Tracker:
    import wandb
    from levanter.tracker.wandb import WandbTracker

    # Levanter's own wandb set-up archives sources and the package list for each run; the step's record holds both already.
    run = wandb.init(
        project=config.wandb_project,
        name=out.step_name,
        group=re.split(r"[/_-]", out.step_name)[0],
        mode=mode,  # type: ignore[arg-type]
        dir=directory,
        config=dict(hyperparameters),
        settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True),
    )
    return maybe_wrap_background(WandbTracker(run), enabled=True, max_queue_size=10_000, finish_timeout=60.0)
