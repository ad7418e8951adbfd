"""Who may run a step, and the one replace that makes a result of what it wrote.

The lease is the step's head in state "held", with a random token. Everything a holder does to it is a conditional
replace of the exact head that it wrote last, so a holder that slept while another took over cannot renew, commit or
release: there is no moment between a check and a write. Taking over is decided by watching, on one's own monotonic
clock, that nothing changed.
"""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from marin_exec.errors import ConfigError, InternalError, StoreError
from marin_exec.records import Head, Record
from marin_exec.secrets import redact
from marin_exec.store import layout
from marin_exec.store.conditional import AlreadyExists, Conflict, Versioned
from marin_exec.store.store import Store


class LeaseLost(StoreError):
    """The step's head is not ours any more: another run took the step over, or the store was removed."""


def claim(
    store: Store,
    digest: str,
    expected: Versioned[Head] | None,
    new_chain: bool = False,
    host: str = "",
    pid: int = 0,
) -> "Lease | None":
    """Takes the lease of a step.

    Args:
        expected: the head as the caller read it when it decided that the step may be taken: none, free, done (to run it
            once more), or held and found stale by a `StalenessWatch`.
        new_chain: take up no pieces of earlier attempts. After a committed attempt they are never taken up.
        host: where the holder runs; for display only, like `pid`.

    Returns:
        The lease, or None if somebody else changed the head first.

    Raises:
        OSError: the store could not be written; the claim may or may not have taken effect, and goes stale if it did.
    """
    attempt = 1 if expected is None else expected.data.attempt + 1
    continues = expected is not None and not new_chain and expected.data.current != expected.data.attempt
    head = Head(
        state="held",
        attempt=attempt,
        chain=expected.data.chain if expected is not None and continues else attempt,
        holder=secrets.token_hex(16),
        current=expected.data.current if expected is not None else None,
        previous_holder=expected.data.holder if expected is not None else "",
        previous_state=expected.data.state if expected is not None else "",
        host=host,
        pid=pid,
    )
    path = layout.head(digest)
    try:
        if expected is None:
            version = store.files.create(path, head.to_bytes())
        else:
            version = store.files.replace(path, head.to_bytes(), expected.version)
    except (AlreadyExists, Conflict):
        found = store.head(digest)
        if found is None or found.data != head:
            return None
        version = found.version  # ours after all: the answer to the request was lost
    return Lease(store, digest, Versioned(head, version))


class Lease:
    """The right to write the result of one attempt. Made by `claim`; its methods may be called from several threads."""

    def __init__(self, store: Store, digest: str, held: Versioned[Head]):
        self._store = store
        self._held = held
        self._ended = ""
        """Why nothing more can be done with this lease."""
        self._lock = threading.Lock()
        self.digest = digest
        self.attempt = held.data.attempt
        self.chain = held.data.chain
        self.holder = held.data.holder
        self.current = held.data.current
        """The attempt whose record is the step's result while this one runs, or None."""

    def renew(self) -> None:
        """Shows that the holder is alive.

        Raises:
            LeaseLost: stop the work; it can't be committed.
            OSError: the store could not be reached; try again.
        """
        with self._lock:
            self._held = self._replace(replace(self._held.data, beat=self._held.data.beat + 1))

    def commit(self, record: Record) -> None:
        """Writes the record and makes it the step's result.

        Raises:
            LeaseLost: it is not the step's result, and this attempt's output counts for nothing.
            OSError: the store could not be reached; commit the same record again.
        """
        if (record.digest, record.attempt, record.chain) != (self.digest, self.attempt, self.chain):
            raise InternalError(
                f"attempt {self.attempt} (chain {self.chain}) of step {self.digest[:16]} commits a record of attempt "
                f"{record.attempt} (chain {record.chain}) of step {record.digest[:16]}"
            )
        with self._lock:
            self._check_held()  # spares a stray record in the usual case; the replace below is what decides
            path, data = layout.record(self.digest, self.attempt), record.to_bytes()
            try:
                self._store.files.create(path, data)
            except AlreadyExists:
                found = self._store.files.read(path)
                if found is None or found.data != data:
                    raise LeaseLost(
                        f"{self._store.url(path)}: holds another record than the one to be committed, though nobody "
                        f"else may write attempt {self.attempt}. Run the step again"
                    ) from None
            self._replace(replace(self._held.data, state="done", current=self.attempt, note=""))
            self._end("committed")

    def release(self, note: str) -> None:
        """Gives the step back without a result: to free, or to done if it had one before.

        Args:
            note: why, e.g. "cancelled"; shown by status.

        Raises:
            LeaseLost: somebody else has the step, so there is nothing to give back.
            OSError: the store could not be reached; try again, or leave it to go stale.
        """
        with self._lock:
            state = "free" if self._held.data.current is None else "done"
            self._replace(replace(self._held.data, state=state, note=redact(note)))
            self._end("released")

    def _replace(self, head: Head) -> Versioned[Head]:
        if self._ended:
            raise LeaseLost(self._ended)
        try:
            version = self._store.files.replace(layout.head(self.digest), head.to_bytes(), self._held.version)
            return Versioned(head, version)
        except Conflict:
            found = self._store.head(self.digest)
            if found is not None and found.data == head:
                return found  # our own write, whose answer was lost
            if found is not None and head.state != "held" and self._ended_before(found.data, head):
                return found
            raise self._lost(found) from None

    def _ended_before(self, found: Head, ours: Head) -> bool:
        """Returns whether our last head took effect, and the step was claimed anew before we could see it."""
        if (found.previous_holder, found.previous_state) == (self.holder, ours.state):
            return True
        return found.current == ours.current == self.attempt

    def _check_held(self) -> None:
        if self._ended:
            raise LeaseLost(self._ended)
        found = self._store.head(self.digest)
        if found is None or (found.data.holder != self.holder and found.data.current != self.attempt):
            raise self._lost(found)

    def _end(self, how: str) -> None:
        self._ended = (
            f"step {self.digest[:16]}: the lease of attempt {self.attempt} was {how} before; claim the step anew"
        )

    def _lost(self, found: Versioned[Head] | None) -> LeaseLost:
        now = "has no head any more"
        if found is not None:
            by = f" on {found.data.host} (process {found.data.pid})" if found.data.host else ""
            now = f"is {found.data.state}, attempt {found.data.attempt}{by}"
        self._ended = (
            f"step {self.digest[:16]}: the lease of attempt {self.attempt} is lost; the step {now}. This attempt's "
            "output does not count; run again to wait for the other's result or to take the step up"
        )
        return LeaseLost(self._ended)


class StalenessWatch:
    """Finds holders that stopped renewing, by watching; no two clocks are ever compared.

    Args:
        stale_after_seconds: how long a held head must stay as it is.
        heartbeat_seconds: how often holders renew.
        clock: monotonic seconds.

    Raises:
        ConfigError: `stale_after_seconds` is less than three heartbeats, so that one lost renewal could cost a live
            holder its step.
    """

    def __init__(
        self, stale_after_seconds: float, heartbeat_seconds: float, clock: Callable[[], float] = time.monotonic
    ):
        if heartbeat_seconds <= 0 or stale_after_seconds < 3 * heartbeat_seconds:
            raise ConfigError(
                f"lease: stale after {stale_after_seconds} s with a heartbeat of {heartbeat_seconds} s; "
                "a heartbeat above 0 s and at least three of them are needed. Raise the first or lower the second"
            )
        self._stale_after = stale_after_seconds
        self._clock = clock
        self._unchanged_since: dict[str, tuple[tuple[int, str, int], float]] = {}

    def is_stale(self, digest: str, head: Head) -> bool:
        """Notes what a step's head is now, and returns whether it has been held, unchanged, for long enough."""
        if head.state != "held":
            self._unchanged_since.pop(digest, None)
            return False
        now, seen = self._clock(), (head.attempt, head.holder, head.beat)
        earlier = self._unchanged_since.get(digest)
        if earlier is None or earlier[0] != seen:
            self._unchanged_since[digest] = (seen, now)
            return False
        return now - earlier[1] >= self._stale_after
