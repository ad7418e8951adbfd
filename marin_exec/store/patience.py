"""How long a request to an object store is tried: one rule for control files and for data, on GCS and on S3.

What may go well another time is tried again until `clients.RETRY_SECONDS` after the first try began, with pauses that
grow; no answer within `clients.READ_SECONDS` (`clients.QUIET_SECONDS` for data) is such a failure too. The client libraries
count tries instead: answers like 503 use those up in seconds, and a server that says nothing takes minutes.
"""

import random
import time
from typing import Any

from marin_exec.store import clients

MAY_PASS = frozenset({408, 429, *range(500, 505)})
"""HTTP's codes for what may go well another time."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 4.0  # seconds
ONE_TRY: Any = {"mode": "standard", "total_max_attempts": 1}
"""botocore's own retries, where these are in their place."""
_S3_MAY_PASS = frozenset({"RequestTimeout", "SlowDown", "InternalError"})
_BEGAN = "marin_exec_began"


class GivenUp(OSError):
    """What failed again and again until it was too late for another try."""


def pause_before(number: int, began: float) -> float:
    """Returns the seconds to wait before another try.

    Args:
        number: of tries so far, from 1.
        began: when the first one did; monotonic seconds.

    Raises:
        GivenUp: it is too late for one.
    """
    if time.monotonic() - began >= clients.RETRY_SECONDS:
        raise GivenUp(f"tried for {time.monotonic() - began:.0f} s")
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (number - 1)) * (0.5 + random.random() / 2)


def be_patient_with_s3(events: Any) -> None:
    """Gives the clients of an event emitter of botocore or aiobotocore this rule, beside whatever retries they have.

    Args:
        events: of a client, or of a session whose clients have not been made yet.
    """
    events.register_first("before-call.s3", _note_begin)
    events.register_first("needs-retry.s3", _pause_of_s3)


def _note_begin(params: dict[str, Any], **_: Any) -> None:
    params["context"][_BEGAN] = time.monotonic()


def _pause_of_s3(
    attempts: int, response: Any, caught_exception: Exception | None, request_dict: dict[str, Any], **_: Any
) -> float | bool:
    from botocore import exceptions as aws

    if response is not None:
        status, error = response[0].status_code, response[1].get("Error", {})
        may_pass = status in MAY_PASS or error.get("Code") in _S3_MAY_PASS
        said = f"{status} {error.get('Code', '')}".strip()
    else:
        may_pass = isinstance(caught_exception, (aws.HTTPClientError, aws.ConnectionError, aws.ResponseStreamingError))
        said = str(caught_exception)
    if not may_pass:
        return False
    try:
        return pause_before(attempts, request_dict["context"][_BEGAN])
    except GivenUp as error:
        raise GivenUp(f"{error}: {said}") from caught_exception
