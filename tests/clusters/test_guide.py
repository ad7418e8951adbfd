"""The guide to real clusters: its commands are run on two nodes on loopback, its manifests parsed and checked."""

import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import yaml
from loopback_cluster import free_port
from processes import alive
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "clusters.md").read_text()


def blocks(what: str) -> list[str]:
    """Returns the code blocks that the guide marks as run or checked here."""
    return re.findall(rf"<!-- \w+ by tests/clusters/test_guide\.py: {what} -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL)


def manifest(what: str) -> dict:
    (text,) = blocks(what)
    return yaml.safe_load(text)


def processes_with(variable: str) -> list[int]:
    """Returns the processes that have a variable in their environment: `ray start` leaves them behind on purpose."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it ended, or is another user's
            continue
    return [pid for pid in found if pid != os.getpid()]


@pytest.fixture
def shell(tmp_path):
    """Runs blocks of the guide with a cluster's addresses; ends whatever they started."""
    mark = f"MARIN_GUIDE_TEST={uuid.uuid4().hex}"
    name, value = mark.split("=")
    ports = {each: str(free_port("127.0.0.2")) for each in ("PORT", "DASHBOARD_PORT")}
    environment = {
        **os.environ,
        **ports,
        name: value,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HEAD": "127.0.0.2",
        "NODE": "127.0.0.3",
        "MARIN_PREFIX": str(tmp_path / "store"),
        "RAY_AUTH_MODE": "disabled",
        "COLUMNS": "200",
    }

    def run(block: str, node: str) -> str:
        # Two nodes on one machine must not share a folder; its name is short, because paths of sockets are bounded.
        folder = Path(f"/tmp/g{value[:8]}{node}")
        folder.mkdir(exist_ok=True)
        # Every node has a port for jobs, which is the same by default; other tests' nodes are on this machine too.
        block = block.replace("ray start", f"ray start --dashboard-agent-listen-port={free_port('0.0.0.0')}")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env={**environment, "RAY_TMPDIR": str(folder)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    yield run
    for pid in processes_with(mark):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, processes_with(mark))), what="the end of the cluster")
    for folder in Path("/tmp").glob(f"g{value[:8]}*"):
        subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.slow
def test_commands_of_the_guide_make_a_cluster_and_run_an_experiment_on_it(shell):
    (head,), (node,), (drive, submit) = blocks("head"), blocks("node"), blocks("driver")
    shell(head, "h")
    shell(node, "n")
    said = shell(drive, "h")
    assert said.count("done    hello/") == 2, said
    said = shell(submit, "h")
    assert "succeeded" in said, said  # everything is reused: the same store


def test_cluster_yaml_is_what_ray_takes():
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = manifest("ray-cluster")
    validate_config(prepare_config(config))
    types = config["available_node_types"]
    assert config["head_node_type"] in types
    assert sum(each.get("max_workers", 0) for each in types.values()) <= config["max_workers"]
    for command in config["head_start_ray_commands"] + config["worker_start_ray_commands"]:
        assert command.startswith(("/opt/experiments/.venv/bin/ray", "ulimit")), command
    assert list(config["file_mounts"]) == ["/opt/experiments"]


def cluster_specs() -> dict[str, dict]:
    return {
        "RayCluster": manifest("raycluster")["spec"],
        "RayJob": manifest("rayjob")["spec"]["rayClusterSpec"],
    }


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
def test_kubernetes_manifests_fit_together(kind):
    from importlib.metadata import version

    found = manifest(kind.lower())
    assert (found["apiVersion"], found["kind"]) == ("ray.io/v1", kind)
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,40}", found["metadata"]["name"])
    spec = cluster_specs()[kind]
    assert spec["rayVersion"] == version("ray"), "the guide names the version of requirements.lock"
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    pods = [group["template"]["spec"] for group in groups]
    assert {pod["serviceAccountName"] for pod in pods} == {"marin"}
    assert len({container["image"] for pod in pods for container in pod["containers"]}) == 1
    assert [pod["containers"][0]["name"] for pod in pods] == ["ray-head", *["ray-worker"] * (len(pods) - 1)]
    for group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values()), "KubeRay takes strings only"
        for container in group["template"]["spec"]["containers"]:
            assert container["resources"]["limits"] == container["resources"]["requests"]
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_job_manifest_runs_the_same_store_as_the_cluster_uses():
    job = manifest("rayjob")["spec"]
    words = job["entrypoint"].split()
    assert words[:2] == ["marin-exec", "run"] and (ROOT / words[2].removeprefix("/opt/experiments/")).exists()
    (head, *_) = manifest("raycluster")["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert words[words.index("--prefix") + 1] == {each["name"]: each["value"] for each in head["env"]}["MARIN_PREFIX"]
