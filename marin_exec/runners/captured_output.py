"""What a process prints while a step runs in it, kept in a file whose end can be read even after the process was killed."""

import os
import sys
import tempfile

from marin_exec.secrets import LONGEST_TOKEN, redact

TAIL_CHARACTERS = 8_000


class CapturedOutput:
    """Sends this process's stdout and stderr, C level included, to a file while it is active; removed at the end."""

    path: str
    """Of the file; valid in the block."""

    def __enter__(self) -> "CapturedOutput":
        descriptor, self.path = tempfile.mkstemp(prefix="marin-exec-", suffix=".out")
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = (os.dup(1), os.dup(2))
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for saved, descriptor in zip(self._saved, (1, 2), strict=True):
            os.dup2(saved, descriptor)
            os.close(saved)
        self._tail = tail_of(self.path)
        os.unlink(self.path)

    def tail(self) -> str:
        """Returns the end of what was printed; valid after the block."""
        return self._tail


def tail_of(path: str) -> str:
    """Returns the end of a file as text, without secrets."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_CHARACTERS - LONGEST_TOKEN))
        return redact(file.read().decode(errors="replace"))[-TAIL_CHARACTERS:]
