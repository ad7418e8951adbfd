"""Executes one attempt of a step, in whatever process a backend chose: the other half of the scheduler.

Nothing here decides anything about leases or commits of whole steps: it calls the step function, commits shards and
milestones on its way, and returns a description of the finished output. It writes only under the attempt's directory,
and piece commits and one log segment under `.marin/`.
"""

import dataclasses
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

from marin_exec.adopted import AdoptedFiles
from marin_exec.errors import StepFailed
from marin_exec.records import FileEntry
from marin_exec.runners.adopting import adopted_digest
from marin_exec.runners.attempt_out import AttemptOut, ShardFailed
from marin_exec.runners.code_that_ran import check_code
from marin_exec.runners.failures import failure_of
from marin_exec.runners.shards import ShardMapper, checked_result
from marin_exec.runners.task import AttemptOutput, AttemptTask, Failure, RankEnded
from marin_exec.store.manifest import output_digest, scan, split_result


def execute(
    task: AttemptTask, map_all: ShardMapper, wait_for_ranks: Callable[[], object] = lambda: None
) -> AttemptOutput | Failure:
    """Calls the step function and describes its output; what the step raises comes back as a Failure.

    Args:
        task: the attempt, for rank 0.
        map_all: runs the shards of `map_shards`.
        wait_for_ranks: called when the function has returned; returns when the other ranks have ended.
    """
    started = time.monotonic()

    def describe(out: AttemptOut, returned: Any) -> AttemptOutput:
        wait_for_ranks()
        return _described(task, out, returned, started)

    return _call(task, map_all, describe)


def execute_rank(task: AttemptTask, map_all: ShardMapper) -> RankEnded | Failure:
    """Calls the step function in a rank other than 0, whose files are part of what rank 0 describes."""
    return _call(task, map_all, lambda out, returned: RankEnded(task.rank))


def _call[T](task: AttemptTask, map_all: ShardMapper, ended: Callable[[AttemptOut, Any], T]) -> T | Failure:
    out = AttemptOut(task, map_all)
    try:
        if task.resources.ranks > 1 and not task.coordinator:
            raise StepFailed(
                f"step {task.step_name}: needs {task.resources.ranks} ranks, and this backend runs one process a step. "
                f"Run it on Ray (--backend ray, the default), or set ranks to 1"
            )
        check_code(task)
        return ended(out, task.fn(task.config, out))
    except ShardFailed as error:
        failure = error.failure
    except (Exception, SystemExit) as error:  # every error of a user's function is the step's failure
        failure = failure_of(error)
    finally:
        closing_problem = out.close()
    if closing_problem:
        failure = dataclasses.replace(failure, reason=f"{failure.reason} ({closing_problem})")
    return failure


def _described(task: AttemptTask, out: AttemptOut, returned: Any, started: float) -> AttemptOutput:
    if isinstance(returned, AdoptedFiles):
        return _output(task, out, started, returned.files, adopted_digest(task, returned), output_path=returned.path)
    result, measured, result_type = split_result(returned)
    checked_result([result, measured])
    out.take_up_milestones()
    files = scan(task.store.fs, out.path)
    if not files and result is None and not measured:
        raise StepFailed(
            f"step {task.step_name}: wrote nothing under {out.path} and returned nothing. A step must leave a file or "
            f"a result: write through out.file(...), or return a dataclass of counters"
        )
    out.check_committed(files)
    content = task.content_digest(out.path) if task.content_digest is not None else None
    digest = output_digest(files, result, content)
    return _output(task, out, started, files, digest, result=result, result_type=result_type, measured=measured)


def _output(
    task: AttemptTask, out: AttemptOut, started: float, files: tuple[FileEntry, ...], digest: str, **more: Any
) -> AttemptOutput:
    return AttemptOutput(
        files=files,
        output_digest=digest,
        seconds=time.monotonic() - started,
        worker_peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        pieces_made=out.pieces_made,
        pieces_taken_up=out.pieces_taken_up,
        milestones=tuple(each.name for each in out.milestones()),
        host=socket.gethostname(),
        source=task.source_found,
        **more,
    )
