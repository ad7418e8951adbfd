"""What a person wants to know when a run has ended, in a few lines: what ran, what was reused and from when, why not more."""

import shlex
from collections import Counter
from collections.abc import Iterable

from marin_exec.runners.state import State, StepStatus
from marin_exec.store import Store
from marin_exec.wording import some_of

MOST_NAMED = 6


def summary_lines(statuses: Iterable[StepStatus]) -> list[str]:
    """Returns one line for each thing that happened to steps, of however many: never more than a screen."""
    by_state: dict[State, list[StepStatus]] = {}
    for status in statuses:
        by_state.setdefault(status.state, []).append(status)
    lines = []
    if done := by_state.get(State.DONE):
        slowest = sorted(done, key=lambda status: -_seconds(status))
        shown = slowest if len(done) > MOST_NAMED else done
        title = "ran" if len(done) <= MOST_NAMED else "ran, slowest first"
        lines.append(f"{title}: {some_of([f'{_name(each)} {_seconds(each):.1f} s' for each in shown], MOST_NAMED)}")
    if reused := [each for each in by_state.get(State.REUSED, []) if each.record is not None]:
        lines.append(f"reused: {_reused(reused)}")
    if linked := by_state.get(State.LINKED):
        lines.append(f"linked: {some_of([_link(each) for each in linked], MOST_NAMED)}")
    if blocked := by_state.get(State.BLOCKED):
        lines += [f"blocked by {cause}: {some_of(names, MOST_NAMED)}" for cause, names in _by_cause(blocked).items()]
    if cancelled := by_state.get(State.CANCELLED):
        lines.append(f"not finished: {some_of([_name(each) for each in cancelled], MOST_NAMED)}")
    return lines


def logs_command(store: Store, name: str) -> str:
    """Returns the command that shows the log of a step's last attempt."""
    return shlex.join(["marin-exec", "logs", name, "--prefix", store.prefix])


def _name(status: StepStatus) -> str:
    return status.planned.step.name


def _seconds(status: StepStatus) -> float:
    return status.record.seconds if status.record is not None else 0.0


def _reused(statuses: list[StepStatus]) -> str:
    runs = Counter(status.record.run_id for status in statuses if status.record is not None)
    steps = f"{len(statuses)} step{'s' if len(statuses) > 1 else ''}"
    if len(runs) == 1:
        return f"{steps} of run {next(iter(runs))}"
    return f"{steps} of {len(runs)} runs, {min(runs)} to {max(runs)}"


def _link(status: StepStatus) -> str:
    link = status.record.link if status.record is not None else None
    return f"{_name(status)} to {link.name}" if link is not None and link.name != _name(status) else _name(status)


def _by_cause(blocked: list[StepStatus]) -> dict[str, list[str]]:
    """Returns the names of blocked steps by the failed step that is the root of it."""
    above = {_name(each): each.note.rpartition(" ")[0] for each in blocked}
    grouped: dict[str, list[str]] = {}
    for name in above:
        cause = above[name]
        while cause in above:
            cause = above[cause]
        grouped.setdefault(cause, []).append(name)
    return grouped
