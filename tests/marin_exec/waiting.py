"""Waiting for effects of another process or thread that nothing announces."""

import time
from collections.abc import Callable
from typing import Any


def wait_until(
    condition: Callable[[], Any], seconds: float = 90.0, what: str = "condition", *, every: float = 0.05
) -> Any:
    """Polls, with a bound, and returns what the condition gave."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come about in {seconds} s")
        time.sleep(every)
    return found
