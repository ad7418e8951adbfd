"""Joins the processes of a gang step, its *ranks*, into one JAX program for as long as the step runs.

A rank that fails leaves at once and says nothing to the others, which may wait for it in the middle of an update: who started
the ranks ends them, and reports the failure that came first. Ending together, as one does after success, would wait for them.
"""

import socket
import time
from collections.abc import Generator
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all

from marin_exec import Out, StepFailed

JOIN_SECONDS = 300
"""How long a rank waits for the others to be there: they import JAX first, on machines that may be busy."""
SILENCE_SECONDS = 60
"""After which a rank that is not heard of counts as lost, and the others end themselves; the engine is faster."""
_LEAVE_SECONDS = 10
_CONNECT_SECONDS = 5
_RETRY_SECONDS = 0.2


@contextmanager
def joined_ranks(out: Out) -> Generator[None]:
    """Makes the devices of all ranks visible to each while it lasts; of one rank alone, nothing has to be done.

    Raises:
        StepFailed: the others are not there in time, or JAX was used in this process before.
    """
    if out.num_ranks == 1:
        yield
        return
    _join(out)
    yield
    rank_0s(0)  # the others wait here for what rank 0 has left to write, however long that takes
    jax.distributed.shutdown()


def rank_0s(number: int) -> int:
    """Returns the number that rank 0 calls this with, on every rank; all must call it."""
    return int(broadcast_one_to_all(np.int32(number)))


def _join(out: Out) -> None:
    from jax._src import xla_bridge

    if xla_bridge.backends_are_initialized():
        raise StepFailed(
            f"{_name(out)}: JAX was used in this process before, and can't join others now; start a process for each rank"
        )
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    deadline = time.monotonic() + JOIN_SECONDS
    if out.rank:
        _wait_for_rank_0(out, deadline)
    # JAX ends a process that waits in vain, without an exception. So rank 0 waits longest: the others can say what is wrong.
    try:
        jax.distributed.initialize(
            out.coordinator,
            out.num_ranks,
            out.rank,
            cluster_detection_method="deactivate",  # the engine knows who takes part, whatever started its cluster
            coordinator_bind_address=out.coordinator,
            initialization_timeout=2 * JOIN_SECONDS,
            heartbeat_timeout_seconds=SILENCE_SECONDS,
            shutdown_timeout_seconds=_LEAVE_SECONDS,
        )
    except RuntimeError as error:
        raise StepFailed(
            f"{_name(out)}: could not join the others at {out.coordinator} ({error}). If another program has taken that port "
            f"since it was found free, run the step again"
        ) from error


def _wait_for_rank_0(out: Out, deadline: float) -> None:
    host, port = out.coordinator.rsplit(":", 1)
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise StepFailed(
                    f"{_name(out)}: rank 0 does not answer at {out.coordinator} within {JOIN_SECONDS} s ({error}). It must be "
                    f"running, and its machine must take connections at that port from the others' machines"
                ) from error
            time.sleep(_RETRY_SECONDS)


def _name(out: Out) -> str:
    return f"{out.step_name}: rank {out.rank} of {out.num_ranks}"
