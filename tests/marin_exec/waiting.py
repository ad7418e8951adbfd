"""Waiting for effects of another process that nothing announces."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 90.0, what: str = "condition") -> None:
    """Polls, with a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come about in {seconds} s")
        time.sleep(0.05)
