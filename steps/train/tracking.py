"""Sends a run's numbers to Levanter's trackers (Weights & Biases), beside the run's own JSON lines.

A tracker is for looking at; it may fail, be off, or miss steps without any effect on the run: one that does not start online
is tried offline, and a run without any goes on. Offline by default: nothing leaves the machine unless WANDB_API_KEY is set
or the config says so.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from levanter.tracker import NoopTracker, Tracker

from marin_exec import Out
from steps.files import local_folder
from steps.train.language_model import TrainConfig

_FINISH_SECONDS = 30.0
_LONGEST_WANDB_NAME = 128
"""Characters of a run's or group's name, which the service refuses beyond that."""


@contextmanager
def run_tracker(config: TrainConfig, out: Out, hyperparameters: Mapping[str, Any]) -> Generator[Tracker]:
    """Yields the tracker of one attempt, and finishes it. Says in the attempt's progress where it had to make do with less.

    Of several ranks, only rank 0 tracks.

    Args:
        config: its `wandb_*` fields decide where the numbers go.
        out: the attempt; its step's name becomes the run's.
        hyperparameters: plain values, kept with the run.
    """
    if out.rank:
        yield NoopTracker()
        return
    with local_folder(config.wandb_directory or out.path) as directory:  # W&B writes to local folders only
        tracker = _first_that_starts(_modes(config.wandb_mode), config, out, directory, hyperparameters)
        try:
            yield tracker
        finally:
            tracker.finish()
            if config.wandb_directory is None:  # a folder of the user's own is left as it is
                with contextlib.suppress(
                    OSError
                ):  # a link that stays is refused, by name, when the output is committed
                    _remove_links(Path(directory) / "wandb")


def _modes(wanted: str) -> list[str]:
    """W&B's modes to try, best first, for a config's `wandb_mode`."""
    if wanted == "auto":
        wanted = "online" if os.environ.get("WANDB_API_KEY") else "offline"
    return {"online": ["online", "offline"], "offline": ["offline"], "disabled": []}[wanted]


def _first_that_starts(
    modes: list[str], config: TrainConfig, out: Out, directory: str, hyperparameters: Mapping[str, Any]
) -> Tracker:
    for mode, then in pairwise([*modes, "no tracker"]):
        try:
            return _wandb_tracker(mode, config, out, directory, hyperparameters)
        except Exception as error:  # whatever a service, its library or its folder does, training goes on
            reason = (str(error).splitlines() or [""])[0][:200]
            out.progress(f"W&B {mode} did not start ({type(error).__name__}: {reason}); going on with {then}")
    return NoopTracker()


def _remove_links(folder: Path) -> None:
    """Removes W&B's links, to its latest run and to logs of its service: absolute ones, which break when the output is moved."""
    for path in list(folder.rglob("*")):
        if path.is_symlink():
            path.unlink(missing_ok=True)


def _shortened(name: str) -> str:
    """Returns a name that W&B takes: one that is too long ends in a digest, so that two of a common beginning differ."""
    if len(name) <= _LONGEST_WANDB_NAME:
        return name
    return f"{name[: _LONGEST_WANDB_NAME - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _wandb_tracker(
    mode: str, config: TrainConfig, out: Out, directory: str, hyperparameters: Mapping[str, Any]
) -> Tracker:
    import wandb
    from levanter.tracker.background import maybe_wrap_background
    from levanter.tracker.wandb import WandbTracker

    settings = wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        disable_code=True,
        x_disable_stats=True,
        init_timeout=config.wandb_timeout_seconds,
        login_timeout=config.wandb_timeout_seconds,
        finish_timeout=_FINISH_SECONDS,
    )
    # Levanter's own wandb set-up archives sources and the package list for each run; the step's record holds both already.
    run = wandb.init(
        project=config.wandb_project,
        name=_shortened(out.step_name),
        group=_shortened(re.split(r"[/_-]", out.step_name)[0]),
        mode=mode,  # type: ignore[arg-type]
        dir=directory,
        config=dict(hyperparameters),
        settings=settings,
    )
    return maybe_wrap_background(
        WandbTracker(run), enabled=True, max_queue_size=10_000, finish_timeout=2 * _FINISH_SECONDS
    )
