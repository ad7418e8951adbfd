"""One process run to its end, with what it and all that it waited for took; one that takes too long is killed."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_SECONDS = 170


class Failed(Exception):
    """A process ended badly, or took too long; the message shows the end of what it printed."""


@dataclass(frozen=True)
class Ended:
    """One process that ended well."""

    seconds: float
    cpu_seconds: float
    """Of the process and all that it waited for: steadier than `seconds` where other programs run too."""
    peak_mb: float
    """No less than this process had when it started that one, so what measures must itself be small."""
    printed: str


def run_bounded(
    command: Sequence[str | Path],
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    most_seconds: float = MOST_SECONDS,
) -> Ended:
    """Runs a command in a process group of its own, which is killed after `most_seconds`.

    Raises:
        Failed: see there.
    """
    with tempfile.TemporaryFile() as printed:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
        )
        too_long = threading.Timer(most_seconds, os.killpg, (process.pid, signal.SIGKILL))
        too_long.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            too_long.cancel()
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    if process.returncode != 0:
        why = f"took longer than {most_seconds:g} s" if seconds >= most_seconds else f"exit code {process.returncode}"
        raise Failed(f"{' '.join(map(str, command))}: {why}; it printed: ...{text[-1500:]}")
    return Ended(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)
