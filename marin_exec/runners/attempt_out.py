"""The `Out` that a step function sees."""

import contextlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marin_exec.errors import StepFailed
from marin_exec.out import Milestone
from marin_exec.records import FileEntry
from marin_exec.runners.shards import (
    SHARD,
    ShardLost,
    ShardMapper,
    ShardTask,
    check_names,
    check_relative,
    checked_result,
    file_under,
    piece_of,
)
from marin_exec.runners.task import AttemptTask, Failure
from marin_exec.store import AttemptLog, Piece, commit_piece, pieces
from marin_exec.store.manifest import plain_result, scan_paths, take_up
from marin_exec.store.pieces import PieceKind

MILESTONE: PieceKind = "milestone"


class ShardFailed(StepFailed):
    """A shard of `map_shards` failed, somewhere; carries why."""

    def __init__(self, failure: Failure):
        super().__init__(failure.reason)
        self.failure = failure


class AttemptOut:
    """One attempt's output while its function runs; docs on `marin_exec.out.Out`."""

    def __init__(self, task: AttemptTask, map_all: ShardMapper):
        self._task = task
        self._map_all = map_all
        self._log: AttemptLog | None = None
        self._lock = threading.Lock()
        self._committed: dict[tuple[PieceKind, str], Piece] = {}
        self._shard_of_file: dict[str, str] = {}
        self.path = task.store.url(task.attempt_path)
        self.step_name = task.step_name
        self.rank, self.num_ranks, self.coordinator = task.rank, task.resources.ranks, task.coordinator
        self.pieces_made = 0
        self.pieces_taken_up = 0

    def file(self, relative: str) -> str:
        return file_under(self._task, relative)

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        of_rank = {"rank": self.rank} if self.rank else {}
        self._event("progress", message=message, done=done, total=total, **of_rank)

    def _event(self, type: str, **fields: Any) -> None:
        with self._lock:  # a step may report from several threads
            if self._log is None:
                self._log = self._task.store.attempt_log(self._task.digest, self._task.attempt)
            self._log.event(type, **fields)

    def close(self) -> str:
        """Closes the log; returns what went wrong with that, "" if nothing did."""
        try:
            if self._log is not None:
                self._log.close()
        except OSError as error:
            return f"and its log could not be closed: {error}"
        return ""

    def map_shards(self, fn: Callable[..., Any], items: Mapping[str, Any], *, cpus: float = 1) -> dict[str, Any]:
        task = self._task
        self._check_rank_0("map_shards")
        check_names(task, items, {name for kind, name in self._committed if kind == SHARD})
        earlier = {
            name: piece for name, piece in pieces(task.store, task.digest, task.chain, SHARD).items() if name in items
        }
        for piece in earlier.values():
            self._take(SHARD, piece)
        if earlier:
            self.progress(f"took up {len(earlier)} shards of earlier attempts", done=len(earlier), total=len(items))
        results = {name: piece.result for name, piece in earlier.items()}
        todo = [ShardTask(task, fn, name, item) for name, item in items.items() if name not in earlier]
        with contextlib.closing(self._map_all(todo, cpus)) as outcomes:
            for outcome in outcomes:
                match outcome:
                    case Failure():
                        raise ShardFailed(outcome)
                    case ShardLost():
                        why = {"reason": outcome.failure.reason, "output_tail": outcome.failure.output_tail}
                        self._event("shard_lost", name=outcome.name, times=outcome.times, **why)
                    case Piece():
                        self._take(SHARD, outcome)
                        results[outcome.name] = outcome.result
                        self.progress(f"shard {outcome.name} done", done=len(results), total=len(items))
        return {name: results[name] for name in items}

    def _check_rank_0(self, method: str) -> None:
        """Raises StepFailed in other ranks: they would do the same work again, or commit what is not whole yet."""
        if self.rank:
            raise StepFailed(
                f"step {self.step_name}: out.{method} was called in rank {self.rank} of {self.num_ranks}; only rank 0 may. "
                f"Let the others write their part and wait until all have, then call it `if out.rank == 0`"
            )

    def _take(self, kind: PieceKind, piece: Piece) -> None:
        """Counts a committed piece in, and gives its files a name in this attempt's directory, so that it is whole."""
        self._committed[kind, piece.name] = piece
        if kind == SHARD:
            for entry in piece.files:
                other = self._shard_of_file.setdefault(entry.path, piece.name)
                if other != piece.name:
                    raise StepFailed(
                        f"step {self.step_name}: shards {other!r} and {piece.name!r} both wrote {entry.path!r}; "
                        f"which one stays would depend on who is faster. Put the shard's name in the file's"
                    )
        if piece.attempt == self._task.attempt:
            self.pieces_made += 1
        else:
            self.pieces_taken_up += 1
            take_up(self._task.store, piece, piece.attempt_path, self._task.attempt_path)

    def publish(self, name: str, result: Any = None) -> None:
        task = self._task
        self._check_rank_0("publish")
        check_relative(task, name)
        files = scan_paths(task.store.fs, self.path, [name])
        mine = piece_of(task, name, files, checked_result(plain_result(result)))
        stands = commit_piece(task.store, task.digest, task.chain, MILESTONE, name, mine)
        if (MILESTONE, name) in self._committed:
            if stands.attempt == task.attempt and stands != mine:
                raise StepFailed(
                    f"step {self.step_name}: milestone {name!r} was published before with other content; what is published "
                    f"stands, because other steps may have read it. Publish the new content under another name"
                )
            return
        if stands.attempt != task.attempt:  # its own version of it would be mixed with the one that stands
            for entry in files:  # one by one: a recursive removal would take a "*" in a name for a pattern
                task.store.fs.rm_file(f"{self.path}/{entry.path}")
        self._take(MILESTONE, stands)
        self._event("published", name=name)

    def milestones(self, prefix: str = "") -> list[Milestone]:
        task = self._task
        found = pieces(task.store, task.digest, task.chain, MILESTONE)
        chosen = [piece for piece in found.values() if piece.name.startswith(prefix)]
        chosen.sort(key=lambda piece: natural_order(piece.name))
        return [Milestone(p.name, task.store.url(f"{p.attempt_path}/{p.name}"), p.result) for p in chosen]

    def take_up_milestones(self) -> None:
        """Gives milestones of earlier attempts a name in this attempt's directory, so that it is whole by itself."""
        for name, piece in pieces(self._task.store, self._task.digest, self._task.chain, MILESTONE).items():
            if (MILESTONE, name) not in self._committed:
                self._take(MILESTONE, piece)

    def check_committed(self, files: Sequence[FileEntry]) -> None:
        """Checks that what was committed on the way is in the final output as it was; shards may be removed again.

        Raises:
            StepFailed: a file was written to after its commit, or a milestone's was removed.
        """
        now = {entry.path: entry for entry in files}
        for (kind, name), piece in self._committed.items():
            for entry in piece.files:
                found = now.get(entry.path)
                if found != entry and (found is not None or kind == MILESTONE):
                    how = "removed" if found is None else "written to"
                    raise StepFailed(
                        f"step {self.step_name}: {entry.path!r} was {how} after {kind} {name!r} that holds it was committed; "
                        f"what is committed must stay as it is. Write another file"
                    )


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Returns a sort key by which step-9 comes before step-10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
