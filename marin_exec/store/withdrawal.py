"""Changing a step's head without running the step: its result is declared none, or its data is cleaned up.

Both are conditional replaces of the exact head that was read, like everything that happens to a head. A withdrawn result
leaves nothing to take up: the next attempt begins a chain of its own. Records and logs stay.
"""

import secrets
from dataclasses import replace

from marin_exec.errors import StoreError
from marin_exec.records import Head
from marin_exec.secrets import redact
from marin_exec.store import layout
from marin_exec.store.attempt_log import utc_now
from marin_exec.store.conditional import Versioned
from marin_exec.store.hold import take
from marin_exec.store.store import Store

FREED = "output freed"
"""How the note of a step begins whose data was cleaned up."""


def invalidate(store: Store, digest: str, by: str, why: str) -> Head:
    """Declares that a step's current result is none any more.

    Args:
        by: who says so; kept with the time and the reason in the head, until there is another result, and in the log of
            the attempt that had made it, for ever.

    Returns:
        The new head.

    Raises:
        StoreError: it has no result, it is being run, or it changed meanwhile.
    """
    found = store.head(digest)
    what = f"step {digest[:16]}"
    if found is None or (found.data.current is None and found.data.state != "held"):
        raise StoreError(
            f"{what}: has no result that could be invalidated; `marin-exec ls` shows the steps that have one"
        )
    if found.data.state == "held":
        raise StoreError(f"{what}: {found.data.held_by}; wait until it ends, or stop it, and invalidate then")
    made_by = found.data.current
    said = redact(f"by {by} on {utc_now()[:19]}: {why}")
    head = replace(
        found.data,
        state="free",
        current=None,
        chain=found.data.attempt + 1,
        holder=secrets.token_hex(16),
        previous_holder=found.data.holder,
        previous_state=found.data.state,
        note=f"invalidated {said}",
        invalidated=said,
    )
    if take(store, layout.head(digest), found, head) is None:
        raise StoreError(f"{what}: somebody changed it at the same moment; look at it again (`marin-exec show`)")
    assert made_by is not None
    with store.attempt_log(digest, made_by) as log:
        log.event("invalidated", by=by, why=why)
    return head


class Cleaning:
    """A step held while data of it is removed. Whoever takes over one that died finds a head like any other."""

    def __init__(self, store: Store, digest: str, before: Head, held: Versioned[Head]):
        self._store = store
        self._digest = digest
        self._before = before
        self._held = held

    def put_back(self) -> bool:
        """Gives the step back as it was; False if somebody took it over meanwhile."""
        before = self._before
        if before.state == "held":
            note = f"the driver of attempt {before.attempt} on {before.host} (pid {before.pid}) went silent"
            before = replace(before, state="free" if before.current is None else "done", note=note)
        return self._end(before)

    def withdraw(self, said: str) -> bool:
        """Gives the step back without a result; False if somebody took it over meanwhile.

        Args:
            said: by whom its output was freed, and why.
        """
        return self._end(replace(self._held.data, state="free", note=f"{FREED} {said}"))

    def _end(self, head: Head) -> bool:
        # A head never repeats, so its holder stays the cleaner's: versions on S3 are digests of content.
        ended = replace(
            head,
            holder=self._held.data.holder,
            previous_holder=self._held.data.previous_holder,
            previous_state=self._held.data.previous_state,
        )
        return take(self._store, layout.head(self._digest), self._held, ended) is not None


def hold_for_cleaning(
    store: Store, digest: str, expected: Versioned[Head], *, withdraw: bool, host: str, pid: int
) -> Cleaning | None:
    """Holds a step that nobody runs.

    Args:
        expected: the head as it was when what is to be removed was worked out; if it is held, by somebody found dead.
        withdraw: from now on the step has no result, and no earlier attempt leaves anything to take up.

    Returns:
        None if the head has changed since.
    """
    before = expected.data
    head = replace(
        before,
        state="held",
        holder=secrets.token_hex(16),
        beat=0,
        heartbeat_seconds=0.0,
        previous_holder=before.holder,
        previous_state=before.state,
        note="cleaning up",
        host=host,
        pid=pid,
    )
    if withdraw:
        head = replace(head, current=None, chain=before.attempt + 1)
    held = take(store, layout.head(digest), expected, head)
    return Cleaning(store, digest, before, held) if held is not None else None
