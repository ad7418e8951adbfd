"""Telling dead holders from live ones, by watching: nothing else can, because no two clocks are compared."""

import time
from collections.abc import Mapping

from marin_exec.records import Head
from marin_exec.store.hold import StalenessWatch
from marin_exec.store.store import Store


def dead_holders(store: Store, held: Mapping[str, Head], watch: StalenessWatch, poll_seconds: float) -> set[str]:
    """Watches held steps until each has shown a sign of life or has been silent for its lease time.

    Args:
        held: heads by digest, as they were read; only steps that still have that holder can be found dead.

    Returns:
        The digests of the dead. It takes a heartbeat if all live, a lease time if one is dead.
    """
    undecided = dict(held)
    dead = set()
    for digest, head in held.items():
        watch.is_stale(digest, head)
    while undecided:
        time.sleep(poll_seconds)
        for digest, before in list(undecided.items()):
            now = store.head(digest)
            if now is None or (now.data.state, now.data.holder, now.data.beat) != ("held", before.holder, before.beat):
                del undecided[digest]
            elif watch.is_stale(digest, now.data):
                del undecided[digest]
                dead.add(digest)
    return dead
