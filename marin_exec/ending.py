"""How a command ends that is asked to: within `END_SECONDS`, whatever the store or a cluster leaves unanswered.

The first signal stops what runs, and what can be written until then is. A second one ends the process at once. Signals
are counted by a thread that reads Python's wake-up descriptor: the main thread may hang in a call of some library,
where no handler is run.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

END_SECONDS = 15.0
"""From the first signal to the end of the process, at most."""
SAY_AFTER_SECONDS = 1.0
"""An end that takes less needs no explanation."""
ONE_SECONDS = 0.5
"""What comes so soon after the first signal is the same one, sent to a process and its group."""
EXIT_INTERRUPTED = 130


class EndingSignals:
    """While active, signals end this process; a signal that is ignored (nohup, a shell's background job) stays so.

    Has an effect in the main thread only, where Python delivers signals.

    Args:
        signums: which.
        on_first: called by the first signal, in the main thread; it may raise KeyboardInterrupt.
        unwritten: returns, in words, what would be lost if the process ended now; called from another thread.
    """

    def __init__(
        self,
        signums: Iterable[signal.Signals],
        on_first: Callable[[], None],
        unwritten: Callable[[], list[str]] = list,
    ):
        self._signums = tuple(signums)
        self._on_first = on_first
        self._unwritten = unwritten
        self._before: dict[signal.Signals, Any] = {}
        self._handled = False
        self._active = False

    def __enter__(self) -> "EndingSignals":
        if threading.current_thread() is not threading.main_thread():
            return self
        self._active = True
        self._before = {each: signal.getsignal(each) for each in self._signums}
        self._before = {each: handler for each, handler in self._before.items() if handler != signal.SIG_IGN}
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._descriptor_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, name="marin-exec signals", daemon=True)
        self._watcher.start()
        self.set()
        return self

    def set(self) -> None:
        """Takes the signals; again, if a library has taken them meanwhile."""
        for each in self._before:
            signal.signal(each, self._handle)

    def __exit__(self, *exc_info: object) -> None:
        if not self._active:
            return
        for each, handler in self._before.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(self._descriptor_before)
        os.close(self._writer)  # the watcher reads the end of it, and ends
        self._watcher.join()
        os.close(self._reader)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if not self._handled:
            self._handled = True
            self._on_first()

    def _watch(self) -> None:
        if not self._signal_comes(None):
            return
        first = time.monotonic()
        said = False
        while (left := first + END_SECONDS - time.monotonic()) > 0:
            comes = self._signal_comes(left if said else min(left, SAY_AFTER_SECONDS))
            if comes is None:
                return
            if comes and time.monotonic() - first > ONE_SECONDS:
                self._end("by a second signal")
            if not said and time.monotonic() - first >= SAY_AFTER_SECONDS:
                said = True
                _say(f"stopping; this ends within {END_SECONDS:g} s, and at once with another Ctrl-C")
        self._end(f"{END_SECONDS:g} s after the signal, though something does not answer")

    def _signal_comes(self, seconds: float | None) -> bool | None:
        """Waits for one of the signals, at most that long; None if there is nothing to watch any more."""
        while select.select([self._reader], [], [], seconds)[0]:
            came = os.read(self._reader, 1)
            if not came:
                return None
            if came[0] in self._before:
                return True
            if seconds is not None:
                break  # another signal: its time is the caller's to count
        return False

    def _end(self, how: str) -> None:
        lost = self._unwritten()
        _say("; ".join([f"ended {how}", *(f"not written: {each}" for each in lost)]))
        os._exit(EXIT_INTERRUPTED)


def _say(line: str) -> None:
    """Writes to stderr beside Python's buffers: the main thread may hold their locks."""
    os.write(2, f"{line}\n".encode())
