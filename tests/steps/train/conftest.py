"""What the tests of training share.

Bits are compared between processes here: products must be unsplit before anything in this one starts jax.
"""

import socket
from pathlib import Path

import pytest

from steps.train.threads import unsplit_products

unsplit_products()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Folder that keeps compiled functions, so that a test's other processes need not compile what this one has."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    folder: Path = tmp_path_factory.mktemp("compiled")
    compilation_cache.set_cache_dir(str(folder))
    yield folder
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()


@pytest.fixture
def unreachable_wandb(monkeypatch):
    """A key, and a server at a port of this machine that nothing listens on."""
    import wandb

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        wandb.teardown()  # W&B reads its environment once in a process
        yield  # bound, but not listening: whoever connects is refused
    wandb.teardown()
