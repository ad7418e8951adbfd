"""Which code a worker runs: it imports installed modules when a step starts, which may be days after the plan read them."""

import dataclasses
import sys
from collections.abc import Collection

from marin_exec.errors import ConfigError, StepFailed
from marin_exec.runners.task import AttemptTask
from marin_exec.source import source_of


def with_source_found(task: AttemptTask, loaded_before: Collection[str]) -> AttemptTask:
    """Returns the task with the code that this process imported for it, where that is other code than the plan's.

    Files speak for what runs only in the moment of the import: of a module that was loaded before, or came with the task,
    nothing is said.
    """
    if task.fn.__module__ in loaded_before or task.fn.__module__ not in sys.modules:
        return task
    try:
        found = source_of(task.fn)
    except ConfigError:  # a file that is being edited cannot be read as Python; what was imported runs all the same
        return task
    if found.digest == task.source_digest:
        return task
    source = {"digest": found.digest, "functions": found.functions}
    return dataclasses.replace(task, source_digest=found.digest, source_found=source)


def check_code(task: AttemptTask) -> None:
    """Raises StepFailed if the task's code is its identity, and this process has imported other code for it."""
    if task.source_is_identity and task.source_found is not None:
        raise StepFailed(
            f"step {task.step_name}: the code of {task.fn.__module__}.{task.fn.__qualname__}, or code that it uses, was edited "
            f"after the plan was made, and its kind {task.kind_name!r} has no version, so its code is its identity. Run again, "
            f"which plans with the code as it is now, or declare @kind(..., version=1)"
        )
