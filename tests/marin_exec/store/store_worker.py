"""A process that works on a store, for tests that race, stop and kill it: `store_worker.py COMMAND PREFIX DIGEST [ARGUMENT]`."""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from marin_exec.records import Record
from marin_exec.store import Conflict, Lease, LeaseLost, Store, check_writable, claim, register_root, utc_now


def record_of(lease: Lease, output_path: str = "data/tiny-0/a1-00000000") -> Record:
    return Record(
        digest=lease.digest,
        name="data/tiny",
        kind="test/tiny",
        kind_version=1,
        identity={},
        attempt=lease.attempt,
        chain=lease.chain,
        run_id="worker",
        output_path=output_path,
        files=(),
        output_digest="0" * 64,
        started=utc_now(),
        finished=utc_now(),
        seconds=0.0,
    )


def before_each(names: list[str], act: Callable[[str, tuple[Any, ...]], None]) -> None:
    """Has `act(name, arguments)` called before each call of these functions of the os module."""

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            act(name, arguments)
            return original(*arguments, **keywords)

        return call

    for name in names:
        setattr(os, name, watched(name, getattr(os, name)))


def cycle(store: Store, digest: str, count: str) -> None:
    """Takes and releases the lease `count` times; nobody else may be inside meanwhile."""
    inside = store.url("inside")
    acquired = 0
    while acquired < int(count):
        head = store.head(digest)
        if head is not None and head.data.state == "held":
            time.sleep(0)
            continue
        lease = claim(store, digest, head)
        if lease is None:
            continue
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if two are inside
        lease.renew()
        os.unlink(inside)
        lease.release("next, please")
        acquired += 1
    print(acquired)


def race(store: Store, digest: str, start: str) -> None:
    """Waits for the file `start`, then does what a driver does first."""
    print("ready", flush=True)
    while not os.path.exists(start):
        time.sleep(0.001)
    check_writable(store)
    new_root = register_root(store, "experiment", [digest])
    head = store.head(digest)  # read once: a second look may find the winner, and claiming over a held head takes over
    lease = claim(store, digest, head) if head is None else None
    if lease is not None:
        store.attempt_log(digest, lease.attempt).event("began")
    print(f"lease={lease is not None} root={new_root}")


def count(store: Store, digest: str, times: str) -> None:
    """Adds 1 to a shared counter so many times, each time by a replace."""
    path, added = "counter/head.json", 0
    while added < int(times):
        found = store.files.read(path)
        assert found is not None
        mine = f"{int(found.data.split()[0]) + 1} by {os.getpid()}".encode()
        try:
            store.files.replace(path, mine, found.version)
        except Conflict:
            again = store.files.read(path)
            if again is None or again.data != mine:  # else the answer was lost, and the request repeated
                continue
        added += 1


def commit_killed(store: Store, digest: str, at: str) -> None:
    """Claims, then commits and is killed before the `at`-th operation of the commit that changes the disk."""
    lease = claim(store, digest, store.head(digest))
    assert lease is not None
    record, left = record_of(lease), int(at)
    store.attempt_log(digest, lease.attempt).close()  # drivers log first, so the record's folder is there

    def kill(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if name == "open" and not arguments[1] & os.O_CREAT:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    before_each(["open", "fsync", "link", "unlink"], kill)
    lease.commit(record)


def outcome(act: Callable[[], None]) -> str:
    try:
        act()
    except LeaseLost:
        return "lost"
    return "done"


def hold(store: Store, digest: str, _: str) -> None:
    """Claims and waits for a line of input; then tries everything that a holder may do."""
    lease = claim(store, digest, store.head(digest))
    assert lease is not None
    # One view of the lease each: one that found itself lost refuses everything without looking again.
    renewing, committing, releasing = (Lease(store, digest, lease._held) for _ in range(3))
    print("held", flush=True)
    sys.stdin.readline()
    print(outcome(renewing.renew))
    print(outcome(lambda: committing.commit(record_of(committing))))
    print(outcome(lambda: releasing.release("woken")))


def stop_in_link(store: Store, digest: str, act: str) -> None:
    """Claims, and stops itself at the very moment before the head is replaced by `act` (commit, renew or release)."""
    lease = claim(store, digest, store.head(digest))
    assert lease is not None

    def stop(name: str, arguments: tuple[Any, ...]) -> None:
        if "head.json" in arguments[1]:
            os.kill(os.getpid(), signal.SIGSTOP)

    before_each(["link"], stop)
    acts = {
        "commit": lambda: lease.commit(record_of(lease)),
        "renew": lease.renew,
        "release": lambda: lease.release("woken"),
    }
    print(outcome(acts[act]))


COMMANDS = {
    "cycle": cycle,
    "count": count,
    "race": race,
    "commit_killed": commit_killed,
    "hold": hold,
    "stop_in_link": stop_in_link,
}

if __name__ == "__main__":
    command, prefix, digest, argument = sys.argv[1:]
    COMMANDS[command](Store.open(prefix), digest, argument)
