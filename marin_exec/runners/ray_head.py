"""Whether the cluster's head answers.

Without it nothing can be scheduled, and Ray ends the driver's process by itself after a minute, before it could give a
lease back or say a word. So the driver looks for itself, and makes no call to a head that does not answer: such calls wait.
"""

import os
import socket
import time

from marin_exec.errors import StepFailed

LOOK_SECONDS = 1.0
CONNECT_SECONDS = 2.0
RAYS_PATIENCE_SECONDS = 60.0
"""Ray's own default of RAY_gcs_rpc_server_reconnect_timeout_s, after which it ends the process."""


def head_answers() -> bool:
    """Whether the head's control store takes connections."""
    import ray

    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            return True
    except OSError:
        return False


class HeadWatch:
    """Notices a head that went away for good. One that comes back within half of Ray's patience (a restart) stops nothing."""

    def __init__(self) -> None:
        patience = float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", RAYS_PATIENCE_SECONDS)) / 2
        self._patience_seconds = patience
        self._silent_since: float | None = None
        self._next_look = 0.0
        self.is_well = True
        """Whether it answered when it was last looked at."""

    def look(self) -> None:
        """Looks again if the last time is a second ago.

        Raises:
            StepFailed: it has not answered for too long.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self.is_well = head_answers()
        self._next_look = time.monotonic() + LOOK_SECONDS
        if self.is_well:
            self._silent_since = None
            return
        self._silent_since = self._silent_since or now  # and not since the last look: the driver may have slept
        silent_seconds = time.monotonic() - self._silent_since
        if silent_seconds > self._patience_seconds:
            raise StepFailed(
                f"the head of the Ray cluster has not answered for {silent_seconds:.0f} s: the running steps are given "
                f"up, and their leases given back. Start the cluster again and run the same command: what was committed "
                f"is reused"
            )
