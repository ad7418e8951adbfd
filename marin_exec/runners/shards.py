"""Shards of `map_shards`: executed anywhere, each committed on its own when its function returns."""

import json
import logging
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from marin_exec.errors import StepFailed
from marin_exec.records import FileEntry
from marin_exec.runners.code_that_ran import check_code
from marin_exec.runners.failures import failure_of
from marin_exec.runners.task import AttemptTask, Failure
from marin_exec.secrets import secret_in
from marin_exec.store import Piece, commit_piece
from marin_exec.store.manifest import plain_result, scan_paths
from marin_exec.store.pieces import PieceKind, piece_named

logger = logging.getLogger(__name__)

SHARD: PieceKind = "shard"
LARGEST_RESULT_BYTES = 2**20
"""Of one typed result as JSON: records are read by every plan and page, so what is larger belongs in a file."""


@dataclass(frozen=True)
class ShardTask:
    """One shard of `map_shards`, ready to be executed anywhere."""

    task: AttemptTask
    fn: Callable[[Any, Any], Any]
    name: str
    item: Any


@dataclass(frozen=True)
class ShardLost:
    """The cluster lost a shard's process, and the shard is run again."""

    name: str
    failure: Failure
    times: int
    """How often that has happened to it in this attempt."""


ShardMapper = Callable[[list[ShardTask], float], Generator[Piece | Failure | ShardLost]]
"""Runs shards and yields their committed pieces in any order, or why one of them failed; `cpus` each."""


class ShardOutput:
    """The `ShardOut` that a shard function sees: it notes which files belong to the shard."""

    def __init__(self, task: AttemptTask, name: str):
        self._task = task
        self.name = name
        self.relative_files: list[str] = []

    def file(self, relative: str) -> str:
        path = file_under(self._task, relative)
        if relative not in self.relative_files:
            self.relative_files.append(relative)
        return path

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        logger.info("%s shard %s: %s", self._task.step_name, self.name, message)


def run_shard(shard: ShardTask) -> Piece | Failure:
    """Runs one shard and commits it; a shard that this attempt already committed is not run again."""
    try:
        return _run_shard(shard)
    except (Exception, SystemExit) as error:  # every error of a user's function is the shard's failure
        return failure_of(error, f"shard {shard.name}")


def _run_shard(shard: ShardTask) -> Piece:
    task = shard.task
    committed = piece_named(task.store, task.digest, task.chain, SHARD, shard.name)
    if committed is not None and committed.attempt == task.attempt:
        return committed  # the task was retried after the commit, before the reply
    check_code(task)
    out = ShardOutput(task, shard.name)
    result = checked_result(plain_result(shard.fn(shard.item, out)))
    root = task.store.url(task.attempt_path)
    for relative in out.relative_files:
        if not task.store.fs.isfile(f"{root}/{relative}"):
            raise StepFailed(
                f"asked for file {relative!r} and did not write it; write each file that shard.file() names"
            )
    files = scan_paths(task.store.fs, root, out.relative_files)
    return commit_piece(
        task.store, task.digest, task.chain, SHARD, shard.name, piece_of(task, shard.name, files, result)
    )


def map_in_process(shards: list[ShardTask], cpus: float) -> Generator[Piece | Failure | ShardLost]:
    """Runs shards one after the other in this process."""
    del cpus
    for shard in shards:
        yield run_shard(shard)


def check_names(task: AttemptTask, items: Mapping[str, Any], used: set[str]) -> None:
    """Raises StepFailed for shard names that are no names, or that an earlier `map_shards` of the attempt had."""
    for name in items:
        if not isinstance(name, str) or not name:
            raise StepFailed(
                f"step {task.step_name}: map_shards: shard name {name!r}; a str that is not empty is needed"
            )
    again = sorted(used & items.keys())
    if again:
        raise StepFailed(
            f"step {task.step_name}: map_shards: shard {again[0]!r} is the name of a shard of an earlier map_shards in this "
            f"step too ({len(again)} such); a name is what a shard is kept under, so give each call its own, e.g. 'second/...'"
        )


def checked_result(result: Any) -> Any:
    """Returns the result.

    Raises:
        StepFailed: it is too large for a record, or holds a secret: redacting would make another result of it.
    """
    text = json.dumps(result)
    secret = secret_in(text)
    if secret is not None:
        raise StepFailed(
            f"result: holds {secret}; a result is kept in a record that everybody with the store can read. "
            f"Return what is needed of it without the secret"
        )
    size_bytes = len(text)
    if size_bytes > LARGEST_RESULT_BYTES:
        raise StepFailed(
            f"result: {size_bytes:,} bytes as JSON; at most {LARGEST_RESULT_BYTES:,} are kept in a record. "
            f"Write the data to a file of the output, and return counters"
        )
    return result


def file_under(task: AttemptTask, relative: str) -> str:
    """Returns the full path of a file in an attempt's directory; its parents are made.

    Raises:
        StepFailed: the path leads out of the directory.
    """
    check_relative(task, relative)
    path = f"{task.store.url(task.attempt_path)}/{relative}"
    task.store.make_directory(path.rsplit("/", 1)[0])
    return path


def check_relative(task: AttemptTask, relative: str) -> None:
    if not relative or any(part in ("", ".", "..") for part in relative.split("/")):
        raise StepFailed(
            f"step {task.step_name}: file {relative!r}; a path relative to the output, without empty, '.' or '..' parts, "
            f"is needed: an attempt writes nowhere else"
        )


def piece_of(task: AttemptTask, name: str, files: tuple[FileEntry, ...], result: Any) -> Piece:
    """Returns a piece that this attempt made."""
    return Piece(
        name=name,
        attempt=task.attempt,
        attempt_path=task.attempt_path,
        files=files,
        source_digest=task.source_digest,
        result=result,
    )
