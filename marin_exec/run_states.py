"""How the runs of a store stand, and what they hold right now: across experiments, from the store alone."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from marin_exec.finding import last_begun
from marin_exec.records import Head
from marin_exec.store import Store, Versioned
from marin_exec.store.run_log import run_events


@dataclass(frozen=True)
class HeldStep:
    """A step that is held."""

    name: str
    digest: str
    attempt: int
    host: str
    pid: int
    run_id: str
    """"" if its driver has not said yet."""
    since: str
    """When the attempt began: UTC, ISO 8601; "" if its driver has not said yet."""
    beat: int
    """How often the holder has renewed its hold."""
    alive: bool | None
    """Whether it showed life while it was watched; None if it was not watched."""
    progress: str
    """The last that the step said of itself."""


def held_steps(store: Store, heads: Mapping[str, Versioned[Head]], dead: Collection[str] | None) -> list[HeldStep]:
    """Returns every step that is held, the one that began first first.

    Args:
        dead: digests of those whose holder was watched and is dead; None if nobody watched.
    """
    held = {digest: each.data for digest, each in heads.items() if each.data.state == "held"}
    found = store.look_up_all(lambda item: _held(store, *item, dead), held.items())
    return sorted(found, key=lambda each: (each.since, each.name))


def _held(store: Store, digest: str, head: Head, dead: Collection[str] | None) -> HeldStep:
    begun = store.begun_record(digest, head.attempt)
    name = begun or last_begun(store, digest)
    said = store.latest_event(digest, head.attempt, "progress")
    return HeldStep(
        name=name.name if name is not None else digest[:16],
        digest=digest,
        attempt=head.attempt,
        host=head.host,
        pid=head.pid,
        run_id=begun.run_id if begun is not None else "",
        since=begun.started if begun is not None else "",
        beat=head.beat,
        alive=None if dead is None else digest not in dead,
        progress=str(said["message"]) if said is not None else (head.note or ""),
    )


@dataclass(frozen=True)
class RunState:
    """How one run stands."""

    run_id: str
    experiment: str
    state: str
    """"finished", "failed", "interrupted", "running", "died", or "silent": no end is logged, and it holds nothing."""
    detail: str
    host: str
    pid: int
    started: str
    counts: dict[str, int]
    """Steps by their last state."""


def run_state(
    store: Store, run_id: str, heads: Mapping[str, Versioned[Head]], held: Collection[HeldStep]
) -> RunState | None:
    """Returns how a run stands; None if its log holds nothing.

    That a driver died is told by what it holds, never by a clock: a holder that was watched and stays silent, or a step that
    was taken over from it.
    """
    events = run_events(store, run_id)
    if not events:
        return None
    last = {event["digest"]: event for event in events if event["type"] == "step"}
    counts = dict(Counter(event["state"] for event in last.values()))
    state, detail = _state(events, last, heads, [each for each in held if each.run_id == run_id])
    started = events[0]
    return RunState(
        run_id=run_id,
        experiment=started.get("experiment", ""),
        state=state,
        detail=detail,
        host=started.get("host", ""),
        pid=started.get("pid", 0),
        started=started["time"],
        counts=events[-1].get("counts", counts) if events[-1]["type"] == "finished" else counts,
    )


def _state(
    events: list[dict[str, Any]],
    last: Mapping[str, dict[str, Any]],
    heads: Mapping[str, Versioned[Head]],
    mine: list[HeldStep],
) -> tuple[str, str]:
    end = events[-1]
    if end.get("error"):
        return "failed", end["error"].partition("\n")[0]
    if end["type"] == "finished":
        failed = [event["name"] for event in last.values() if event["state"] == "failed"]
        how = "interrupted" if end.get("interrupted") else "failed" if failed else "finished"
        return how, f"{', '.join(failed[:4])} failed" if failed else f"{end.get('seconds', 0):.1f} s"
    alive = [each.name for each in mine if each.alive is not False]
    if alive:
        return "running", ", ".join(alive[:4]) + (f" and {len(alive) - 4} more" if len(alive) > 4 else "")
    if mine:
        return "died", f"it holds {mine[0].name}, and is silent; the next run takes over"
    for digest, event in last.items():
        if event["state"] == "running" and digest in heads and heads[digest].data.attempt > (event["attempt"] or 0):
            return "died", f"attempt {heads[digest].data.attempt} of {event['name']} took over from it"
    return "silent", "its log has no end, and it holds no step: it is starting, waits for others, or died"


def step_line(event: dict[str, Any]) -> str:
    """Returns an event of a run's log as one line for a person."""
    time = event["time"][:19]
    if event["type"] == "step":
        seconds = (
            f"  {event['seconds']:.1f} s" if event.get("seconds") is not None and event["state"] == "failed" else ""
        )
        note = f"  ({event['note']})" if event.get("note") else ""
        return f"{time}  {event['state']:<9} {event['name']}{seconds}{note}"
    if event["type"] == "started":
        counts = ", ".join(f"{number} {name}" for name, number in event.get("counts", {}).items())
        return f"{time}  started   {event.get('experiment')} on {event.get('host')} (pid {event.get('pid')}): {counts}"
    if event["type"] == "finished":
        counts = ", ".join(f"{number} {name}" for name, number in event.get("counts", {}).items())
        how = "failed" if event.get("error") else "interrupted" if event.get("interrupted") else "finished"
        return f"{time}  {how:<9} {event.get('seconds', 0):.1f} s: {event.get('error') or counts}"
    return f"{time}  {event['type']}"
