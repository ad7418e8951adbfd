import os
import signal
import subprocess
from collections.abc import Callable, Generator

import pytest
from engine import Engine
from loopback_cluster import LoopbackCluster


@pytest.fixture(scope="session")
def cluster() -> Generator[LoopbackCluster]:
    """A head that lives as long as the tests of this folder; tests add and kill nodes."""
    with LoopbackCluster(dashboard=True) as started:
        yield started


@pytest.fixture
def engine(cluster, tmp_path) -> Engine:
    """Runs experiments on the cluster, found by RAY_ADDRESS."""
    return Engine(tmp_path, environment={**cluster.driver_environment(), "RAY_ADDRESS": cluster.address})


@pytest.fixture
def start(engine) -> Generator[Callable[..., subprocess.Popen[str]]]:
    """Starts drivers, and ends those that a failed test leaves."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        started.append(engine.start(*arguments))
        return started[-1]

    yield start
    for driver in started:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate(timeout=30)
