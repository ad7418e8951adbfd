"""What a person sees while a run goes on: a live table on a terminal, one plain line per change elsewhere.

All of it goes to stderr. What running steps say of themselves is read from their logs in the store, so it is the same
whichever machine they run on.
"""

import os
import re
import sys
import time
from collections import Counter
from datetime import datetime
from types import TracebackType
from typing import Any

from marin_exec.plan import Action, Plan
from marin_exec.runners.state import SETTLED, State, StepStatus
from marin_exec.runners.task import Failure
from marin_exec.secrets import redact
from marin_exec.store import Store
from marin_exec.summary import logs_command, summary_lines

HEARTBEAT_SECONDS = 60.0
LOOK_SECONDS = 2.0
REDRAW_SECONDS = 0.25
TRACEBACK_LINES = 25
OUTPUT_LINES = 15
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_WORDS = {
    State.PENDING: "again",
    State.WAITING: "wait",
    State.RUNNING: "run",
    State.DONE: "done",
    State.REUSED: "reuse",
    State.LINKED: "link",
    State.FAILED: "FAILED",
    State.BLOCKED: "blocked",
    State.CANCELLED: "cancel",
}


class PlainReporter:
    """One line per state change, and one a minute for each running step."""

    def __init__(self, store: Store, plan: Plan, run_id: str):
        self._store = store
        self._plan = plan
        self._run_id = run_id
        self._started = time.monotonic()
        self._last_heartbeat = self._started

    def __enter__(self) -> "PlainReporter":
        counts = Counter(each.action for each in self._plan.steps.values())
        self._say(
            f"run {self._run_id}: {len(self._plan.steps)} steps, {counts[Action.RUN] + counts[Action.WAIT]} to run"
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return

    def starting(self, what: str) -> None:
        """Says that something is being started that takes a while."""
        self._say(f"starting {what}")

    def note(self, line: str) -> None:
        """Says what may be wrong, and stops nothing."""
        self._say(f"note    {line}")

    def changed(self, status: StepStatus) -> None:
        note = f"  ({status.note})" if status.note else ""
        word = "queue" if status.queued else _WORDS[status.state]
        self._say(f"{word:<7} {status.planned.step.name}{note}")

    def tick(self, statuses: dict[str, StepStatus]) -> None:
        now = time.monotonic()
        if now - self._last_heartbeat < HEARTBEAT_SECONDS:
            return
        self._last_heartbeat = now
        for status in statuses.values():
            if status.state is State.RUNNING:
                latest = latest_progress(self._store, status)
                word = "queued" if status.queued else "running"
                self._say(f"{word} {status.planned.step.name}  {now - status.started:.0f} s  {latest}".rstrip())

    def summary(self, statuses: dict[str, StepStatus], *, interrupted: bool) -> None:
        """Prints the counts, what became of which steps, then each root cause and the command that shows its log."""
        counted = Counter(status.state for status in statuses.values())
        parts = ", ".join(f"{count} {state}" for state, count in counted.items())
        how = "interrupted" if interrupted else "finished"
        self._say(f"{how} in {time.monotonic() - self._started:.0f} s: {parts or 'nothing was started'}")
        for line in summary_lines(statuses.values()):
            self._write(f"  {line}")
        for status in statuses.values():
            if status.state is State.FAILED and status.failure is not None:
                self._say_failure(status, status.failure)

    def _say_failure(self, status: StepStatus, failure: Failure) -> None:
        planned = status.planned
        where = f" (attempt {status.last_attempt})" if status.attempts else ""
        self._write(f"\nFAILED {planned.step.name}{where}: {failure.reason}")
        if failure.traceback:
            self._write(_block("traceback, from the step function on", failure.traceback, TRACEBACK_LINES))
        if failure.output_tail.strip():
            self._write(_block("it had printed last", failure.output_tail, OUTPUT_LINES))
        if status.attempts:
            self._write(f"  log: {logs_command(self._store, planned.step.name)}")

    def _say(self, line: str) -> None:
        self._write(f"{datetime.now().strftime('%H:%M:%S')} {line}")

    def _write(self, text: str) -> None:
        print(redact(text), file=sys.stderr, flush=True)


class LiveReporter(PlainReporter):
    """A table of the running steps below the lines of what has changed, redrawn while the run goes on."""

    def __init__(self, store: Store, plan: Plan, run_id: str):
        from rich.console import Console
        from rich.live import Live

        super().__init__(store, plan, run_id)
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._last_look = self._last_drawn = 0.0
        self._progress: dict[str, str] = {}

    def __enter__(self) -> "LiveReporter":
        self._live.start()
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()

    def tick(self, statuses: dict[str, StepStatus]) -> None:
        now = time.monotonic()
        if now - self._last_drawn < REDRAW_SECONDS:
            return
        self._last_drawn = now
        running = [status for status in statuses.values() if status.state in (State.RUNNING, State.WAITING)]
        if now - self._last_look > LOOK_SECONDS:
            self._last_look = now
            self._progress = {status.planned.digest: latest_progress(self._store, status) for status in running}
        self._live.update(self._table(running, statuses, now))

    def _table(self, running: list[StepStatus], statuses: dict[str, StepStatus], now: float) -> Any:
        from rich.table import Table

        settled = sum(status.state in SETTLED for status in statuses.values())
        table = Table(
            title=f"{settled} of {len(statuses)} steps settled, {now - self._started:.0f} s", title_justify="left"
        )
        for column in ("step", "state", "seconds", "progress"):
            table.add_column(column, justify="right" if column == "seconds" else "left")
        for status in running:
            seconds = f"{now - status.started:.0f}" if status.state is State.RUNNING else ""
            progress = self._progress.get(status.planned.digest, "") or status.note
            table.add_row(status.planned.step.name, status.state, seconds, redact(progress))
        return table

    def _write(self, text: str) -> None:
        self._console.print(redact(text), markup=False, highlight=False, soft_wrap=True)


def _block(title: str, text: str, lines: int) -> str:
    """Returns the end of a text, indented under a title."""
    kept = _COLOUR.sub("", text).strip("\n").splitlines()
    left_out = f", last {lines} of {len(kept)} lines" if len(kept) > lines else ""
    return "\n".join([f"  {title}{left_out}:", *(f"    {line}" for line in kept[-lines:])])


def latest_progress(store: Store, status: StepStatus) -> str:
    """Returns the last thing that a running step said of itself, from its log; "" if it has said nothing."""
    if status.lease is None:
        return ""
    said = store.latest_event(status.planned.digest, status.lease.attempt, "progress")
    return str(said["message"]) if said else ""


def make_reporter(store: Store, plan: Plan, run_id: str, *, live: bool) -> PlainReporter:
    """Returns the live table on a terminal that can redraw, if it is wanted; plain lines elsewhere."""
    able = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return (LiveReporter if live and able else PlainReporter)(store, plan, run_id)
