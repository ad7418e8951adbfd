"""What went wrong in a step, as plain values that cross process borders and that its author can read."""

import os
import traceback

from marin_exec.errors import IdentityMismatch, MarinExecError, StoreError
from marin_exec.runners.task import Failure
from marin_exec.secrets import redact

LONGEST_REASON = 2_000
_ENGINE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def may_pass(error: Exception) -> bool:
    """Returns whether an error of the store may be gone at the next look: what a person has to mend is not."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    lasting = (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError)
    return isinstance(cause, OSError) and not isinstance(cause, lasting)


def failure_of(error: BaseException, what: str = "") -> Failure:
    """Returns the failure that a user's function ended with.

    Args:
        error: whatever it raised, even if it cannot be pickled or has no `str`.
        what: which part of the step failed, e.g. "shard part-00003".
    """
    reason = f"{what}: {one_line(error)}" if what else one_line(error)
    return Failure(
        reason=redact(reason)[:LONGEST_REASON],
        infrastructure=False,
        traceback=user_traceback(error),
        mismatch=isinstance(error, IdentityMismatch),
    )


def one_line(error: BaseException) -> str:
    """Returns type and message of an error in one line; an error of this package needs no type."""
    try:
        message = " ".join(str(error).split())
    except Exception as second:  # an exception class of the user's whose __str__ fails
        message = f"(its message cannot be shown: {type(second).__name__})"
    if isinstance(error, MarinExecError):
        return message
    return f"{type(error).__name__}: {message}".rstrip(": ")


def user_traceback(error: BaseException) -> str:
    """Returns the traceback from the first frame that is not this engine's; whole if all are."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_ENGINE):
        first = first.tb_next
    return "".join(traceback.format_exception(type(error), error, first or error.__traceback__))
