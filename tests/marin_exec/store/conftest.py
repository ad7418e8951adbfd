"""A store of each backend, and records to put there."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers.object_stores import ObjectStoreServer

from marin_exec.records import Record
from marin_exec.store import Store, utc_now


@pytest.fixture(params=["local", "memory", "gcs", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    match request.param:
        case "local":
            return Store.open(str(tmp_path / "store"))
        case "memory":
            return Store.open(f"memory://test-{uuid.uuid4().hex}")
        case kind:
            return Store.open(served_prefix(request.getfixturevalue(f"{kind}_server"), monkeypatch))


def served_prefix(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns a fresh store URL on a server that this process, and those that it starts, find by the environment."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.new_prefix()


@pytest.fixture
def local_store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store"))


@pytest.fixture
def make_record() -> Callable[..., Record]:
    def make(digest: str, attempt: int, chain: int, **changes: Any) -> Record:
        values: dict[str, Any] = {
            "digest": digest,
            "name": "data/tiny",
            "kind": "test/tiny",
            "kind_version": 1,
            "identity": {"kind": "test/tiny", "config": [1, "two"]},
            "attempt": attempt,
            "chain": chain,
            "run_id": "run",
            "output_path": f"data/tiny-{digest[:16]}/a{attempt}-00000000",
            "files": (),
            "output_digest": "0" * 64,
            "started": utc_now(),
            "finished": utc_now(),
            "seconds": 0.5,
        }
        return Record(**{**values, **changes})

    return make


@pytest.fixture
def worker_environment() -> dict[str, str]:
    """For processes that run store_worker.py: the repository's packages are found."""
    root = Path(__file__).parents[3]
    return {**os.environ, "PYTHONPATH": str(root)}
