"""A Ray cluster of several nodes on this machine: each is a process group of its own on a loopback address of its own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

RAY = Path(sys.executable).parent / "ray"
START_SECONDS = 90
# So that the cluster learns of a lost node after a second or two, and not after twenty.
QUICK_TO_NOTICE = {
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "500",
    "RAY_health_check_failure_threshold": "3",
}


def free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


@dataclass
class Node:
    """One node: everything that `ray start --block` started, to be killed at once."""

    ip: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """Kills all its processes, as a power cut would."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)


@dataclass
class LoopbackCluster:
    """The head, and the nodes that were added to it. Its folder has a short name: paths of sockets have at most 107 bytes."""

    head_cpus: int = 2
    environment: dict[str, str] = field(default_factory=dict)
    dashboard: bool = False
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        self.port = free_port("127.0.0.2")
        self.dashboard_port = free_port("127.0.0.2")
        self.address = f"127.0.0.2:{self.port}"

    def __enter__(self) -> "LoopbackCluster":
        arguments = ["--head", f"--port={self.port}", f"--num-cpus={self.head_cpus}"]
        arguments.append(f"--ray-client-server-port={free_port('127.0.0.2')}")
        arguments.append(f"--include-dashboard={str(self.dashboard).lower()}")
        if self.dashboard:
            arguments += ["--dashboard-host=127.0.0.2", f"--dashboard-port={self.dashboard_port}"]
        self._start("127.0.0.2", arguments)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for node in reversed(self.nodes):
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)  # what is still dying may write there

    @property
    def dashboard_address(self) -> str:
        return f"http://127.0.0.2:{self.dashboard_port}"

    @property
    def head(self) -> Node:
        return self.nodes[0]

    def driver_environment(self) -> dict[str, str]:
        """Returns what drivers need in their environment."""
        return {"RAY_AUTH_MODE": "disabled", **QUICK_TO_NOTICE}

    def add_node(self, num_cpus: int = 2, environment: dict[str, str] | None = None, **resources: float) -> Node:
        """Adds a node and waits until it is part of the cluster."""
        ip = f"127.0.0.{len(self.nodes) + 2}"
        return self._start(
            ip,
            [f"--address={self.address}", f"--num-cpus={num_cpus}", f"--resources={json.dumps(resources)}"],
            environment,
        )

    def _start(self, ip: str, arguments: list[str], extra: dict[str, str] | None = None) -> Node:
        name = f"n{len(self.nodes)}"
        log = self.folder / f"{name}.log"
        command = [str(RAY), "start", *arguments, f"--node-ip-address={ip}", "--block", "--disable-usage-stats"]
        command.append(f"--dashboard-agent-listen-port={free_port('0.0.0.0')}")
        command += [f"--temp-dir={self.folder / name}", "--object-store-memory=100000000"]
        environment = {**os.environ, **self.driver_environment(), **self.environment, **(extra or {})}
        with open(log, "wb") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        node = Node(ip, process, log)
        self.nodes.append(node)
        deadline = time.monotonic() + START_SECONDS
        while "Ray runtime started" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                node.kill()
                raise AssertionError(f"node {ip} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        return node
