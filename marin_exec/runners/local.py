"""The `local` backend: attempts run one after the other in this process, for pdb, for tests, and for memory:// stores."""

import contextlib
import io
import os
import sys
from collections.abc import Generator, Mapping
from typing import Any, TextIO

from marin_exec.runners.attempt import execute
from marin_exec.runners.shards import map_in_process
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure
from marin_exec.secrets import redact


class LocalBackend:
    """Runs an attempt when its end is asked for; heartbeats go on meanwhile, on their own thread."""

    name = "local"
    capacity = 1

    def __init__(self) -> None:
        self._queue: list[tuple[str, AttemptTask]] = []

    def start(self) -> None:
        return

    def submit(self, task: AttemptTask) -> str:
        token = f"{task.digest}/{task.attempt}"
        self._queue.append((token, task))
        return token

    def finished(self, timeout_seconds: float) -> list[tuple[str, AttemptOutput | Failure]]:
        del timeout_seconds
        if not self._queue:
            return []
        token, task = self._queue.pop(0)
        # stdout is for results; what steps print belongs to the narration.
        narration = Redacting(sys.stderr)
        printed = contextlib.redirect_stdout(narration), contextlib.redirect_stderr(narration)
        with _environment(task.resources.env), printed[0], printed[1]:
            return [(token, execute(task, map_in_process))]

    def cancel(self, token: str) -> None:
        self._queue = [(each, task) for each, task in self._queue if each != token]

    def stop(self) -> None:
        self._queue.clear()

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


class Redacting(io.TextIOBase):
    """A text stream that writes to another one, piece by piece and without secrets."""

    def __init__(self, stream: TextIO):
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._stream.write(redact(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
