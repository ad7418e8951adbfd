"""Clients of remote services: made when first used, one for each process and its settings, shared by its threads.

A forked child makes its own: a connection that two processes write to answers neither.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
"""For one request. Control files are small, and a lease is 15 s by default: waiting for longer helps nobody."""
QUIET_SECONDS = 15.0
"""For one request for an output's data, whose parts may be large: how long nothing may come, before it is tried again."""
RETRY_SECONDS = 20.0
"""After which a call is not tried again; then it is the caller's to decide, who may have a lease to lose."""
POOL_SIZE = 64
"""Connections kept open; as many as a plan has threads."""

_clients: dict[tuple[Any, ...], Any] = {}
_lock = threading.Lock()


def shared[T](name: str, make: Callable[[], T], variables: Sequence[str] = ()) -> T:
    """Returns this process's client of a name, made by `make` if there is none yet.

    Args:
        variables: of the environment, that a client reads when it is made; with other values there it is another.
    """
    key = (name, *(os.environ.get(each) for each in variables))
    client = _clients.get(key)
    if client is None:
        with _lock:
            client = _clients.get(key)
            if client is None:
                client = _clients[key] = make()
    return client


def _forget() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it during the fork
    _clients.clear()


os.register_at_fork(after_in_child=_forget)
