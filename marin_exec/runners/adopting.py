"""The output of a step that adopts data: what lies there, if it is what the experiment says."""

from marin_exec.adopted import AdoptedFiles
from marin_exec.errors import IdentityMismatch
from marin_exec.runners.task import AttemptTask
from marin_exec.store.file_changes import changed_files
from marin_exec.store.manifest import output_digest

MAX_NAMED = 5


def adopted_digest(task: AttemptTask, found: AdoptedFiles) -> str:
    """Returns the output digest of adopted data.

    Raises:
        IdentityMismatch: it is not the one that the experiment states; the message says what changed, as far as an earlier
            record can tell.
    """
    digest = output_digest(found.files, None)
    if digest == task.config.digest:
        return digest
    head = task.store.head(task.digest)
    current = head.data.current if head else None
    earlier = task.store.readable_record(task.digest, current) if current is not None else None
    changes = changed_files(earlier.files, found.files, MAX_NAMED) if earlier is not None else ""
    since = f" Since it was adopted: {changes}." if changes else ""
    raise IdentityMismatch(
        f"step {task.step_name}: {found.path} holds {len(found.files)} files with manifest digest {digest}; the experiment "
        f"states {task.config.digest}.{since} Restore the data, or state the new digest if the change is meant"
    )
