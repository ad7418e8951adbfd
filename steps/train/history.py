"""The run's own log: JSON lines, flushed as they come, that are the truth of what happened whatever a tracker does."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from marin_exec import Out, open_file


class History:
    """Writes `metrics.jsonl`, `evals.jsonl` and `timings.jsonl` of an output, and what else is watched.

    All but the timings survive in checkpoints.

    Used as a context manager. Of several ranks, only rank 0 writes. Values must be plain JSON and finite, so that equal runs
    write equal bytes.
    """

    METRICS, EVALS, TIMINGS = "metrics.jsonl", "evals.jsonl", "timings.jsonl"

    def __init__(self, out: Out, earlier: Mapping[str, list[str]], kept: Sequence[str]):
        """Opens the files and writes what earlier attempts logged.

        Args:
            out: the attempt.
            earlier: whole lines by file name.
            kept: names of the files that survive in checkpoints (`kept_files`).
        """
        self._files: dict[str, Any] = {}
        self._recent: dict[str, list[str]] = {name: [] for name in kept}
        if out.rank:
            return
        for name in (*kept, self.TIMINGS):
            self._files[name] = open_file(out.file(name), "w")
            self._files[name].writelines(earlier.get(name, ()))
            self._files[name].flush()

    def add(self, name: str, row: Mapping[str, Any]) -> None:
        """Appends one row to a file and flushes it."""
        if name not in self._files:
            return
        line = json.dumps(row, allow_nan=False) + "\n"
        self._files[name].write(line)
        self._files[name].flush()
        if name in self._recent:
            self._recent[name].append(line)

    def take_recent(self) -> dict[str, list[str]]:
        """Returns the lines added since the last call, by file name; they will not be returned again."""
        recent, self._recent = self._recent, {name: [] for name in self._recent}
        return recent

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
