"""The event log of a run: what its driver saw, one line a change, for pages and people that follow it.

`.marin/runs/<run_id>.jsonl` has one writer, the driver. Nothing rests on it but what is shown, and which roots `gc
--keep-last` counts.
"""

import itertools
import re
from typing import Any

from marin_exec.store import layout
from marin_exec.store.attempt_log import AttemptLog, read_events
from marin_exec.store.store import Store

_NAME = re.compile(r"(\d{8}T\d{6}-[0-9a-f]+)(?:\.([2-9]|[1-9]\d+))?\.jsonl")


def open_run_log(store: Store, run_id: str) -> AttemptLog:
    """Returns the log of a run that begins; its caller is the only writer."""
    return AttemptLog(store.files.open_log(layout.run_log(run_id, segment)) for segment in itertools.count(1))


def run_ids(store: Store) -> list[str]:
    """Returns the ids of all runs that had something to do, oldest first."""
    return sorted(_segments(store))


def _segments(store: Store) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name in store.names(layout.RUNS):
        match = _NAME.fullmatch(name)
        if match is not None:
            found.setdefault(match[1], []).append(int(match[2] or 1))
    return found


def run_events(store: Store, run_id: str) -> list[dict[str, Any]]:
    """Returns what a run logged, in order; a torn last line is left out. [] if there is no such run.

    Raises:
        StoreError: the log is damaged, or cannot be read.
    """
    events = []
    for segment in sorted(_segments(store).get(run_id, ())):
        path = layout.run_log(run_id, segment)
        events += read_events(store.content(path), store.url(path))
    return events


def root_if_unfinished(store: Store, run_id: str) -> tuple[str, str] | None:
    """Returns the id of the root that a run counts on, and when it logged last, if its log does not say that it ended."""
    events = run_events(store, run_id)
    if not events or events[-1]["type"] == "finished":
        return None
    return events[0].get("root", ""), events[-1]["time"]
