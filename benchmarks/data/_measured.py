"""Runs a function in a process of its own and says what it took, so that no benchmark's memory counts for another's."""

import multiprocessing
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.data._memory import peak_megabytes


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
    pipe.send(Measured(value, spent, peak_megabytes()))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
