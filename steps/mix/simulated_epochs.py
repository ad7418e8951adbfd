"""Simulated epoching: a small run uses a share of each component, so that it repeats data as a larger run would.

Without it, a proxy sees each sequence of a small cell for the first time where the large run sees it for the eighth, and
repeating looks free. Left on for the run that is meant itself, it would leave out most of the data: that is refused.
"""

import numpy as np

from marin_exec import ConfigError


def check_simulated_epochs(
    run_tokens: int, budget_tokens: int | None, subset_seed: int | None, *, real: bool = False
) -> None:
    """Checks what a run is asked to simulate.

    Args:
        run_tokens: tokens of the run itself.
        budget_tokens: tokens of the larger run that it stands for; None: of none.
        subset_seed: which sequences are used; None goes by the run's seed.
        real: whether the run is marked as meant itself.

    Raises:
        ConfigError: the run is marked real, or is not smaller than the other, or a subset is chosen where nothing is cut.
    """
    if budget_tokens is None:
        if subset_seed is not None:
            raise ConfigError(
                f"subset_seed is {subset_seed}, but nothing is cut: it chooses what simulated_budget_tokens leaves. Set "
                f"that, or leave subset_seed None"
            )
    elif real or budget_tokens <= run_tokens:
        raise ConfigError(
            f"simulated_budget_tokens is {budget_tokens} for a run of {run_tokens} tokens{' that is marked real' * real}: "
            f"only a smaller run that stands for a larger one leaves data out to repeat the rest. Leave it None for the "
            f"real run"
        )


def simulated_sizes(sizes: np.ndarray, run_tokens: int, budget_tokens: int) -> np.ndarray:
    """Returns how many sequences of each component are used: floor(size * run / budget), at least 1 of those with any.

    Args:
        sizes: int64[C], sequences of each component.
        run_tokens: tokens of the run.
        budget_tokens: tokens of the run that it stands for.

    Returns:
        int64[C].
    """
    cut = [size * run_tokens // budget_tokens for size in sizes.tolist()]  # whole numbers: exact at any size
    return np.maximum(np.array(cut, dtype=np.int64), np.minimum(sizes, 1))
