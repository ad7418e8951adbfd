"""Runs a function in a process of its own and says what it took, so that no benchmark's memory counts for another's."""

import multiprocessing
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_BYTES_PER_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


@dataclass(frozen=True)
class Measured:
    value: Any
    """What the function returned."""
    cpu_seconds: float
    """User and system time of the process, its imports and its children left out."""
    peak_megabytes: float
    """Largest resident memory of the process, libraries included."""


def measured(function: Callable[..., Any], *arguments: Any) -> Measured:
    """Returns what a module-level function returned and took, called in a fresh process.

    Raises:
        RuntimeError: the process ended without a result; its traceback is on the standard error.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        raise RuntimeError(f"{function.__name__} failed; what happened is said above") from None
    finally:
        process.join()


def _call(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    before = _cpu_seconds()
    value = function(*arguments)
    spent = _cpu_seconds() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_PER_UNIT / 1e6
    pipe.send(Measured(value, spent, peak))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
