"""Who may run a step, and the one replace that makes a result of what it wrote.

The lease is a hold on the step's head. Lease and result are one object, so a holder that was paused, was taken over and
woke up fails at the replace that would be its commit.
"""

import secrets
from dataclasses import replace

from marin_exec.errors import InternalError
from marin_exec.records import Head, Record
from marin_exec.store import layout
from marin_exec.store.conditional import AlreadyExists, Versioned
from marin_exec.store.hold import Hold, LeaseLost, take
from marin_exec.store.store import Store


def claim(
    store: Store,
    digest: str,
    expected: Versioned[Head] | None,
    new_chain: bool = False,
    host: str = "",
    pid: int = 0,
    heartbeat_seconds: float = 0.0,
) -> "Lease | None":
    """Takes the lease of a step.

    Args:
        expected: the head as the caller read it when it decided that the step may be taken: none, free, done (to run it
            once more), or held and found stale by a `StalenessWatch`.
        new_chain: take up no pieces of earlier attempts. After a committed attempt they are never taken up.
        host: where the holder runs; for display only, like `pid`.
        heartbeat_seconds: how often the holder will renew, at least.

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
        heartbeat_seconds=heartbeat_seconds,
        current=expected.data.current if expected is not None else None,
        invalidated=expected.data.invalidated if expected is not None else "",
        previous_holder=expected.data.holder if expected is not None else "",
        previous_state=expected.data.state if expected is not None else "",
        host=host,
        pid=pid,
    )
    held = take(store, layout.head(digest), expected, head)
    return Lease(store, digest, held) if held is not None else None


class Lease(Hold):
    """The right to write the result of one attempt. Made by `claim`."""

    consequence = (
        "This attempt's output does not count; run again to wait for the other's result or to take the step up"
    )

    def __init__(self, store: Store, digest: str, held: Versioned[Head]):
        super().__init__(store, layout.head(digest), "step", digest[:16], held)
        self.digest = digest
        self.chain = held.data.chain
        self.current = held.data.current
        """The attempt whose record is the step's result while this one runs, or None."""

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
            self._replace(replace(self._held.data, state="done", current=self.attempt, note="", invalidated=""))
            self._end("committed")
