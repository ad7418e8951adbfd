"""One cold run of the small chain on Ray, shared by all tests of this folder, which only read it or copy it."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from chain_labels import write_labels_by_length
from chain_store import ChainStore

from steps.quality.labels_file import file_digest


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Where labels and store are; SMALL_CHAIN_FOLDER names one to keep and use again while tests are being written."""
    kept = os.environ.get("SMALL_CHAIN_FOLDER")
    return Path(kept) if kept else tmp_path_factory.mktemp("chain")


@pytest.fixture(scope="session")
def parameters(folder) -> tuple[str, ...]:
    labels = write_labels_by_length(folder / "labels")
    return ("--labels", str(labels), "--labels_digest", file_digest(str(labels)))


@pytest.fixture(scope="session")
def compiled(folder) -> dict[str, str]:
    """Variables by which a run finds what jax compiled in another: the same programs, so the same bits."""
    return {"JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


@pytest.fixture(scope="session")
def finished(folder, parameters, compiled) -> ChainStore:
    """A store in which the small chain has run to its end, undisturbed."""
    store = ChainStore(path=folder / "store", parameters=parameters, environment=compiled)
    done = store.call("run")
    assert done.returncode == 0, done.stderr
    return store
