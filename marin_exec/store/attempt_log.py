"""The log of an attempt: JSON lines in numbered segments with one writer each; nobody appends to another's file."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from marin_exec.errors import StoreError
from marin_exec.secrets import redact_tree
from marin_exec.store.conditional import AlreadyExists, LogFile

HELD_BACK = frozenset({"progress", "step"})
"""Types of events that many come of, and of which a lost one costs nothing. "step" is what a run says of a step."""


def utc_now() -> str:
    """Returns the time in UTC as ISO 8601 with microseconds. For display: nothing is decided by a clock."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class AttemptLog:
    """The segments of one writer. Made by `Store.attempt_log`.

    Args:
        segments: new ones, each of which nobody else writes to; the second and later ones are taken when one is full.
    """

    def __init__(self, segments: Iterator[LogFile]):
        self._segments = segments
        self._file = next(segments)

    def event(self, type: str, **fields: Any) -> None:
        """Adds {"time", "type", **fields}, safe from a kill. What JSON has no form for is kept as its `str`.

        Secrets in the fields are redacted, except in `record`: that was made without any, and must stay as it is. On
        object stores progress is safe a second later, or with the next event of another type.
        """
        said = {name: value if name == "record" else redact_tree(_plain(value)) for name, value in fields.items()}
        line = json.dumps({"time": utc_now(), "type": type, **said}, separators=(",", ":"))
        if self._file.full:
            self._file.close()
            self._file = next(self._segments)
        while not self._appended(line.encode("ascii") + b"\n", soon=type in HELD_BACK):
            self._file = next(self._segments)

    def _appended(self, line: bytes, *, soon: bool) -> bool:
        try:
            self._file.append(line, soon=soon)
        except AlreadyExists:
            return False
        return True

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(value: Any) -> Any:
    """Returns a value as plain JSON; most are already."""
    return (
        value if value is None or isinstance(value, (str, int, float)) else json.loads(json.dumps(value, default=str))
    )


def read_events(data: bytes, where: str) -> list[dict[str, Any]]:
    """Returns the events in a segment's bytes. A last line without its newline was torn by a crash, and is left out.

    Raises:
        StoreError: another line is damaged.
    """
    *lines, _torn = data.split(b"\n")
    events = []
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
        except ValueError as error:
            raise StoreError(
                f"{where}: line {number} is damaged ({error}); move the file away to go on without it"
            ) from None
        events.append(event)
    return events
