"""Executes one attempt of a step, in whatever process a backend chose: the other half of the scheduler.

Nothing here decides anything about leases or commits of whole steps: it calls the step function, commits shards and
milestones on its way, and returns a description of the finished output. It writes only under the attempt's directory,
and piece commits and one log segment under `.marin/`.
"""

import logging
import re
import resource
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marin_exec.errors import StepFailed
from marin_exec.out import Milestone
from marin_exec.records import FileEntry
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure
from marin_exec.store import Piece, commit_piece, pieces
from marin_exec.store.manifest import output_digest, plain_result, scan, scan_paths, split_result, take_up
from marin_exec.store.pieces import PieceKind, piece_named

logger = logging.getLogger(__name__)

SHARD: PieceKind = "shard"
MILESTONE: PieceKind = "milestone"


@dataclass(frozen=True)
class ShardTask:
    """One shard of `map_shards`, ready to be executed anywhere."""

    task: AttemptTask
    fn: Callable[[Any, Any], Any]
    name: str
    item: Any


ShardMapper = Callable[[list[ShardTask], float], Iterable[Piece]]
"""Runs shards and yields their committed pieces in any order; `cpus` each."""


def execute(task: AttemptTask, map_all: ShardMapper) -> AttemptOutput | Failure:
    """Calls the step function and describes its output; what the step raises comes back as a Failure."""
    store = task.store
    log = store.attempt_log(task.digest, task.attempt)
    started = time.monotonic()
    out = AttemptOut(task, log, map_all)
    try:
        store.fs.makedirs(out.path, exist_ok=True)
        returned = task.fn(task.config, out)
        result, measured, result_type = split_result(returned)
        out.take_up_milestones()
        files = scan(store.fs, out.path)
        if not files and result is None and not measured:
            raise StepFailed(
                f"step {task.step_name}: wrote nothing under {out.path} and returned nothing. A step must leave a file or "
                f"a result: write through out.file(...), or return a dataclass of counters"
            )
        content = task.content_digest(out.path) if task.content_digest is not None else None
        digest = output_digest(files, result, content)
    except Exception as error:  # every error of a user's function is the step's failure, reported with its traceback
        text = traceback.format_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.event("failed", reason=reason, traceback=text)
        return Failure(reason=reason, infrastructure=False, traceback=text)
    return AttemptOutput(
        files=files,
        output_digest=digest,
        result=result,
        result_type=result_type,
        measured=measured,
        seconds=time.monotonic() - started,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        pieces_made=out.pieces_made,
        pieces_taken_up=out.pieces_taken_up,
        milestones=tuple(each.name for each in out.milestones()),
        host=socket.gethostname(),
    )


class AttemptOut:
    """The `Out` that a step function sees; docs on `marin_exec.out.Out`."""

    def __init__(self, task: AttemptTask, log: Any, map_all: ShardMapper):
        self._task = task
        self._log = log
        self._map_all = map_all
        self.path = task.store.url(task.attempt_path)
        self.step_name = task.step_name
        self.pieces_made = 0
        self.pieces_taken_up = 0

    def file(self, relative: str) -> str:
        return _file_under(self._task, relative)

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        self._log.event("progress", message=message, done=done, total=total)

    def map_shards(self, fn: Callable[..., Any], items: Mapping[str, Any], *, cpus: float = 1) -> dict[str, Any]:
        task = self._task
        earlier = {
            name: piece for name, piece in pieces(task.store, task.digest, task.chain, SHARD).items() if name in items
        }
        for piece in earlier.values():
            if piece.attempt_path != task.attempt_path:
                take_up(task.store, piece, piece.attempt_path, task.attempt_path)
        self.pieces_taken_up += len(earlier)
        results = {name: piece.result for name, piece in earlier.items()}
        if earlier:
            self.progress(f"took up {len(earlier)} shards of earlier attempts", done=len(earlier), total=len(items))
        todo = [ShardTask(task, fn, name, item) for name, item in items.items() if name not in earlier]
        for piece in self._map_all(todo, cpus):
            if piece.attempt_path != task.attempt_path:
                take_up(task.store, piece, piece.attempt_path, task.attempt_path)
            results[piece.name] = piece.result
            self.pieces_made += 1
            self.progress(f"shard {piece.name} done", done=len(results), total=len(items))
        return {name: results[name] for name in items}

    def publish(self, name: str, result: Any = None) -> None:
        task = self._task
        stands = commit_piece(
            task.store,
            task.digest,
            task.chain,
            MILESTONE,
            name,
            _piece(task, name, scan_paths(task.store.fs, self.path, [name]), plain_result(result)),
        )
        if stands.attempt == task.attempt:
            self.pieces_made += 1
            self._log.event("published", name=name)

    def milestones(self, prefix: str = "") -> list[Milestone]:
        task = self._task
        found = pieces(task.store, task.digest, task.chain, MILESTONE)
        chosen = [piece for piece in found.values() if piece.name.startswith(prefix)]
        chosen.sort(key=lambda piece: natural_order(piece.name))
        return [Milestone(p.name, task.store.url(f"{p.attempt_path}/{p.name}"), p.result) for p in chosen]

    def take_up_milestones(self) -> None:
        """Gives milestones of earlier attempts a name in this attempt's directory, so that it is whole by itself."""
        task = self._task
        for piece in pieces(task.store, task.digest, task.chain, MILESTONE).values():
            if piece.attempt_path != task.attempt_path:
                take_up(task.store, piece, piece.attempt_path, task.attempt_path)
                self.pieces_taken_up += 1


class ShardOutput:
    """The `ShardOut` that a shard function sees: it notes which files belong to the shard."""

    def __init__(self, task: AttemptTask, name: str):
        self._task = task
        self.name = name
        self.relative_files: list[str] = []

    def file(self, relative: str) -> str:
        path = _file_under(self._task, relative)
        if relative not in self.relative_files:
            self.relative_files.append(relative)
        return path

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        logger.info("%s shard %s: %s", self._task.step_name, self.name, message)


def run_shard(shard: ShardTask) -> Piece:
    """Runs one shard and commits it; a shard that this attempt already committed is not run again.

    Raises:
        StepFailed: the shard function asked for a file and did not write it.
    """
    task = shard.task
    committed = piece_named(task.store, task.digest, task.chain, SHARD, shard.name)
    if committed is not None and committed.attempt == task.attempt:
        return committed  # the task was retried after the commit, before the reply
    out = ShardOutput(task, shard.name)
    result = plain_result(shard.fn(shard.item, out))
    root = task.store.url(task.attempt_path)
    for relative in out.relative_files:
        if not task.store.fs.isfile(f"{root}/{relative}"):
            raise StepFailed(
                f"step {task.step_name}: shard {shard.name} asked for file {relative!r} and did not write it; "
                f"write each file that shard.file(...) names"
            )
    piece = _piece(task, shard.name, scan_paths(task.store.fs, root, out.relative_files), result)
    return commit_piece(task.store, task.digest, task.chain, SHARD, shard.name, piece)


def map_in_process(shards: list[ShardTask], cpus: float) -> Iterable[Piece]:
    """Runs shards one after the other in this process."""
    del cpus
    for shard in shards:
        yield run_shard(shard)


def _file_under(task: AttemptTask, relative: str) -> str:
    parts = relative.split("/")
    if not relative or any(part in ("", ".", "..") for part in parts):
        raise StepFailed(
            f"step {task.step_name}: file {relative!r}; a path relative to the output, without empty, '.' or '..' parts, "
            f"is needed: an attempt writes nowhere else"
        )
    root = task.store.url(task.attempt_path)
    path = f"{root}/{relative}"
    task.store.fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    return path


def _piece(task: AttemptTask, name: str, files: tuple[FileEntry, ...], result: Any) -> Piece:
    return Piece(
        name=name,
        attempt=task.attempt,
        attempt_path=task.attempt_path,
        files=files,
        source_digest=task.source_digest,
        result=result,
    )


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Returns a sort key by which step-9 comes before step-10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
