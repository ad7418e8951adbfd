"""Removing what a survey found, while others run.

A run registers its root first and plans then. Here a step that is not in use is first withdrawn (from then on no plan counts
on it), and only then are the roots looked at again: whichever came first, either the root is seen here and the step is put
back, or the plan there sees that the output is gone. docs/decisions/0015 has the whole argument.
"""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from marin_exec.garbage import Garbage, Survey
from marin_exec.store import Store, layout
from marin_exec.store.withdrawal import hold_for_cleaning
from marin_exec.walking import remove

NUM_THREADS = 16


@dataclass
class Removed:
    """What a removal did."""

    files: int = 0
    bytes: int = 0
    skipped: list[str] = field(default_factory=list)
    """Why something was left after all, one line each."""

    def add(self, other: "Removed") -> None:
        self.files += other.files
        self.bytes += other.bytes
        self.skipped += other.skipped


def clean(found: Survey, by: str) -> Removed:
    """Removes what a survey found, as far as it still may go.

    Args:
        by: who does it, for the heads of steps that lose their result.
    """
    done = Removed()
    by_step: dict[str, list[Garbage]] = {}
    for each in found.garbage:
        by_step.setdefault(each.digest, []).append(each)
    for each in by_step.pop("", ()):
        if each.step and _is_recorded(found.store, each.path):
            done.skipped.append(f"{each.path}: a run has begun to write there")
        else:
            _remove(found.store, each, done)
    with ThreadPoolExecutor(NUM_THREADS) as threads:  # a step costs two synced writes or two round trips, and few bytes
        parts = [threads.submit(_clean_step, found, digest, garbage, by) for digest, garbage in by_step.items()]
        try:
            for part in parts:
                done.add(part.result())
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    return done


def _clean_step(found: Survey, digest: str, garbage: list[Garbage], by: str) -> Removed:
    store, withdraw, done = found.store, digest in found.withdraw, Removed()
    label = f"{garbage[0].step or digest[:16]} ({digest[:16]})"
    if withdraw and found.now_in_use(digest):
        done.skipped.append(f"{label}: a run that began meanwhile needs it")
        return done
    held = hold_for_cleaning(
        store, digest, found.heads[digest], withdraw=withdraw, host=socket.gethostname(), pid=os.getpid()
    )
    if held is None:
        done.skipped.append(f"{label}: somebody began to run it")
        return done
    keep = True
    try:
        if withdraw and found.now_in_use(digest):
            done.skipped.append(f"{label}: a run that began meanwhile needs it")
            return done
        keep = not withdraw
        for each in garbage:
            _remove(store, each, done)
    finally:
        if keep:
            held.put_back()
        else:
            now = datetime.now(UTC).isoformat(timespec="seconds")[:19]
            held.withdraw(f"by {by} on {now}: no root led to it (marin-exec gc)")
    return done


def _remove(store: Store, each: Garbage, done: Removed) -> None:
    files, freed = remove(store, each.path)
    done.files, done.bytes = done.files + files, done.bytes + freed
    if store.is_local and not each.path.startswith(f"{layout.CONTROL}/") and each.step:
        try:
            os.rmdir(os.path.dirname(store.url(each.path)))  # of all attempts, once it is empty
        except OSError:
            return  # it is not


def _is_recorded(store: Store, path: str) -> bool:
    digest16 = store.locate(store.url(path)).digest16
    return any(digest.startswith(digest16) for digest in store.known_digests())
