"""The log of an attempt as lines for a person, and whether the attempt still goes on."""

from collections.abc import Iterator
from typing import Any

from marin_exec.records import Head, Record
from marin_exec.store import Store


def attempt_events(store: Store, digest: str, attempt: int) -> list[dict[str, Any]]:
    """Returns all that an attempt's driver and workers logged, in the order of their clocks; then its commit, if there is one.

    The commit is an event {"type": "done", "time", "seconds", "files", "bytes", "output"}, made of the record.
    """
    events = sorted(store.events(digest, attempt), key=lambda event: event["time"])
    record = store.readable_record(digest, attempt)
    head = store.head(digest)
    if record is not None and _counted(head.data if head else None, attempt):
        size = sum(entry.size_bytes for entry in record.files)
        done = {
            "time": record.finished,
            "type": "done",
            "seconds": record.seconds,
            "files": len(record.files),
            "bytes": size,
        }
        events.append({**done, "output": store.url(record.output_path)})
    return events


def _counted(head: Head | None, attempt: int) -> bool:
    """Whether a record that is there was committed: that of the last attempt only if the head says so."""
    return head is not None and (attempt != head.attempt or head.current == attempt or head.chain > attempt)


def state_of(store: Store, digest: str, attempt: int, events: list[dict[str, Any]]) -> str:
    """Returns "running", "done", "failed", "cancelled" or "never ended": what the log and the head say together."""
    for event in reversed(events):
        if event["type"] == "done":
            return "done"
        if event["type"] == "ended":
            return "failed"
        if event["type"] == "cancelled":
            return "cancelled"
    head = store.head(digest)
    if head is not None and head.data.state == "held" and head.data.attempt == attempt:
        return "running"
    return "never ended"


def lines_of(event: dict[str, Any]) -> Iterator[str]:
    """Yields an event as one line, and what belongs to it indented below: a traceback, what was printed last."""
    yield f"{event['time'][:19]}  {event['type']:<10} {_said(event)}".rstrip()
    for key, title in (("traceback", "traceback"), ("output_tail", "it had printed last")):
        text = (event.get(key) or "").strip("\n")
        if text:
            yield f"    {title}:"
            yield from (f"      {line}" for line in text.splitlines())


def _said(event: dict[str, Any]) -> str:
    kind = event["type"]
    if kind == "started":
        where = Record.from_json(event["record"]).provenance if "record" in event else {}
        return f"by run {event.get('run_id')} of {where.get('user')} on {where.get('host')}: {event.get('reason')}"
    if kind == "progress":
        done, total = event.get("done"), event.get("total")
        count = f" ({done:g} of {total:g})" if done is not None and total is not None else ""
        return f"{event['message']}{count}"
    if kind == "ended":
        why = "infrastructure: " if event.get("infrastructure") else ""
        return f"{why}{event.get('reason')}" + ("; tried again" if event.get("again") else "")
    if kind == "done":
        return f"{event['seconds']:.1f} s, {event['files']} files, {event['bytes']:,} bytes: {event['output']}"
    left_out = ("time", "type", "traceback", "output_tail", "record")
    return ", ".join(f"{key} {value}" for key, value in event.items() if key not in left_out and value is not None)
