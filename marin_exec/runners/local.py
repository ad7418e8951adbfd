"""The `local` backend: attempts run one after the other in this process, for pdb, for tests, and for memory:// stores."""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from types import FrameType
from typing import Any, TextIO

from marin_exec.errors import ConfigError
from marin_exec.runners.attempt import execute
from marin_exec.runners.shards import map_in_process
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure
from marin_exec.secrets import redact
from marin_exec.step import Step
from marin_exec.store import Store


class Interrupted(BaseException):
    """Raised inside a step that must not go on; like KeyboardInterrupt it is no Exception."""


class LocalBackend:
    """Runs an attempt when its end is asked for; heartbeats go on meanwhile, on their own thread.

    `wake` interrupts the step that runs, by SIGURG: a signal that does nothing where it is not expected.
    """

    name = "local"
    capacity = 1

    def __init__(self) -> None:
        self._queue: list[tuple[str, AttemptTask]] = []
        self._handler_before: Any = None
        self._woken = threading.Event()
        self._executing = False

    def start(self) -> None:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals to that thread only
            self._handler_before = signal.signal(signal.SIGURG, self._interrupt)

    def check(self, store: Store, steps: Sequence[Step], say: Callable[[str], None]) -> None:
        for step in steps:
            if step.resources.ranks > 1:
                raise ConfigError(
                    f"step {step.name}: needs {step.resources.ranks} ranks, and --backend local is one process. Run it on "
                    f"Ray (--backend ray, the default), or set ranks to 1"
                )
            if step.resources.runtime_env:
                say(
                    f"{step.name}: its runtime_env ({', '.join(step.resources.runtime_env)}) is left out: this is one process"
                )

    def submit(self, task: AttemptTask) -> str:
        token = f"{task.digest}/{task.attempt}"
        self._queue.append((token, task))
        return token

    def finished(self, timeout_seconds: float) -> list[tuple[str, AttemptOutput | Failure]]:
        del timeout_seconds
        if not self._queue or self._woken.is_set():
            self._woken.clear()
            return []
        token, task = self._queue.pop(0)
        # stdout is for results; what steps print belongs to the narration.
        narration = Redacting(sys.stderr)
        printed = contextlib.redirect_stdout(narration), contextlib.redirect_stderr(narration)
        try:
            with _environment(task.resources.env), printed[0], printed[1]:
                self._executing = True
                if self._woken.is_set():
                    raise Interrupted
                outcome: AttemptOutput | Failure = execute(task, map_in_process)
                self._executing = False
                return [(token, outcome)]
        except Interrupted:
            return []  # whoever woke this knows what it is about
        finally:
            self._executing = False
            self._woken.clear()

    def wake(self) -> None:
        self._woken.set()
        if self._handler_before is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if self._executing:
            self._executing = False
            raise Interrupted

    def queued(self, token: str) -> str:
        return ""  # it runs in the call that asks for its end

    def cancel(self, token: str) -> None:
        self._queue = [(each, task) for each, task in self._queue if each != token]

    def stop(self) -> None:
        self._queue.clear()
        if self._handler_before is not None:
            signal.signal(signal.SIGURG, self._handler_before)
            self._handler_before = None

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
