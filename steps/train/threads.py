"""How many threads XLA uses on a CPU, and what that does to the bits of a result.

With `--xla_cpu_multi_thread_eigen=false` a matrix product isn't split over threads, so sums are made in one order: results have
the same bits with one thread or two (measured; docs/model.md). NPROC is the size of XLA's thread pool.
"""

import os
from pathlib import Path

from marin_exec import Resources

UNSPLIT_PRODUCTS = "--xla_cpu_multi_thread_eigen=false"


def train_resources(num_threads: int = 1, ranks: int = 1, compiled: Path | None = None) -> Resources:
    """Returns resources for a training or evaluation step on CPUs: so many cores and XLA threads, reproducible bits.

    Args:
        num_threads: cores and XLA threads of each rank.
        ranks: in which training may run.
        compiled: local folder that keeps compiled functions from one process to the next, for many runs of one shape on
            machines of one kind. None compiles in every process.
    """
    env = {"XLA_FLAGS": UNSPLIT_PRODUCTS, "NPROC": str(num_threads), "JAX_PLATFORMS": "cpu"}
    if compiled is not None:
        env["JAX_COMPILATION_CACHE_DIR"] = str(compiled)
    return Resources(cpus=num_threads, env=env, ranks=ranks)


def unsplit_products() -> bool:
    """Makes this process's products reproducible if jax hasn't started yet; returns whether they are.

    Steps that are given `train_resources` are so from the start; this is for runs in the caller's own process.
    """
    from jax._src import xla_bridge

    flags = os.environ.get("XLA_FLAGS", "")
    if "--xla_cpu_multi_thread_eigen" not in flags and not xla_bridge.backends_are_initialized():
        os.environ["XLA_FLAGS"] = f"{flags} {UNSPLIT_PRODUCTS}".strip()
    return UNSPLIT_PRODUCTS in os.environ.get("XLA_FLAGS", "")
