"""What tests of step kinds share."""

import uuid
from collections.abc import Iterator

import pytest


@pytest.fixture(params=["memory", "gs", "s3"])
def remote(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A URL below which there is nothing, on each kind of filesystem that is not a local disk."""
    if request.param == "memory":
        yield f"memory://{uuid.uuid4().hex}"
        return
    server = request.getfixturevalue({"gs": "gcs_server", "s3": "s3_server"}[request.param])
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    forget_clients()
    yield server.new_prefix()
    forget_clients()


def forget_clients() -> None:
    """Makes Levanter's next client look at the environment: fsspec keeps one a process, wherever it was told to go."""
    from gcsfs import GCSFileSystem
    from s3fs import S3FileSystem

    GCSFileSystem.clear_instance_cache()
    S3FileSystem.clear_instance_cache()
