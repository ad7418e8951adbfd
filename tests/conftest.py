"""What all tests share."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Helper modules of the tests (directory_out, servers, marin_exec/engine, marin_exec/store/faulty) are imported by name.
FOLDERS = (Path(__file__).parent / folder for folder in (".", "marin_exec", "marin_exec/store", "clusters", "faults"))
sys.path[:0] = [str(folder.resolve()) for folder in FOLDERS]

from servers import object_stores  # noqa: E402

# A shell starts its background jobs with SIGINT ignored, nohup with SIGHUP, and so would be every program that a test signals.
for signum, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(signum) is signal.SIG_IGN:
        signal.signal(signum, usual)

# A property says nothing of time: a busy machine must not make one fail.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[object_stores.ObjectStoreServer]:
    """A Google Cloud Storage server; its `environment` is for the test to set."""
    if not object_stores.PYTHON.exists():
        pytest.skip(object_stores.MISSING)
    with object_stores.gcs_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[object_stores.ObjectStoreServer]:
    """An S3 server; its `environment` is for the test to set."""
    if not object_stores.PYTHON.exists():
        pytest.skip(object_stores.MISSING)
    with object_stores.s3_server() as server:
        yield server
