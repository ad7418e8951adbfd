"""When a run is evaluated and checkpointed. Loads no jax, so that an experiment can name a checkpoint before there is one."""

import math


def due_steps(num_steps: int, every: float) -> list[int]:
    """Returns the update counts at each multiple of a share of the run, the end included, in order and without repeats.

    Args:
        num_steps: updates of the run.
        every: share of the run, in (0, 1].
    """
    times = math.floor(1 / every + 1e-9)
    return sorted({max(1, round(num_steps * every * k)) for k in range(1, times + 1)} | {num_steps})


def checkpoint_name(step: int) -> str:
    """Returns the milestone name of the checkpoint after `step` updates."""
    return f"checkpoints/step-{step}"
