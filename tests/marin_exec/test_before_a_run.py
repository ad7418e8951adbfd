"""What is looked at before anything runs: what a cluster has, what a node sees, and what a step's environment names."""

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import ray

import marin_exec
from marin_exec import ConfigError, Resources
from marin_exec.provenance import code_digest
from marin_exec.runners.capacity import shortfall
from marin_exec.runners.preflight import make_look
from marin_exec.runners.ray import RayBackend
from marin_exec.runners.ray_environments import check_paths
from marin_exec.runners.ray_nodes import see_gone
from marin_exec.runners.ray_task import Started
from marin_exec.store import Store

NODES = [{"CPU": 4.0, "memory": 8.0 * 2**30}, {"CPU": 2.0, "GPU": 1.0, "memory": 2.0 * 2**30}]


@pytest.mark.parametrize(
    ("resources", "lacks"),
    [
        (Resources(), ""),
        (Resources(cpus=4), ""),
        (Resources(cpus=0), ""),
        (Resources(cpus=2, gpus=1), ""),
        (Resources(gpus=4), "needs 4 GPU, and no node of the cluster has more than 1 GPU"),
        (Resources(custom={"tpu": 1}), "needs 1 tpu, and no node of the cluster has more than 0 tpu"),
        (Resources(cpus=4, gpus=1), "needs 4 CPU, 1 GPU on one node, and no node of the cluster has all of that"),
        (
            Resources(memory_bytes=16 * 2**30),
            "needs 16 GiB of memory, and no node of the cluster has more than 8 GiB of memory",
        ),
    ],
)
def test_shortfall_says_what_no_node_could_ever_give(resources, lacks):
    assert shortfall(resources, NODES) == lacks


def test_shortfall_of_a_gang_counts_places_on_all_nodes():
    assert shortfall(Resources(cpus=2, ranks=3), NODES) == ""
    assert (
        shortfall(Resources(cpus=2, ranks=4), NODES)
        == "needs 2 CPU for each of 4 ranks, and the cluster has that for 3"
    )


def test_ray_that_does_not_come_up_on_this_machine_is_an_error_with_what_to_do(monkeypatch):
    def init(**options: object) -> None:
        raise Exception("The current node timed out during startup.")  # as ray/_private/node.py says it

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    backend = RayBackend()
    try:
        with pytest.raises(ConfigError, match=r"Ray did not start: The current node timed out.*--backend local"):
            backend.start()
    finally:
        backend.stop()


@pytest.fixture
def expected(tmp_path) -> dict[str, Any]:
    """What a driver would expect of a node that has everything."""
    store = Store.open(str(tmp_path / "store"))
    store.files.create("probes/driver", b"seen")
    return {
        "python": platform.python_version(),
        "ray": ray.__version__,
        "marin_exec": metadata.version("marin-exec"),
        "code": code_digest(Path(marin_exec.__file__).parent),
        "modules": ["marin_exec.step", "json"],
        "prefix": store.prefix,
        "probes": "probes",
    }


def test_look_finds_nothing_wrong_with_a_node_like_the_drivers(expected):
    assert make_look()(expected) == ([], [])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"python": "3.99.1"}, "and the driver 3.99.1; use one version everywhere"),
        ({"ray": "1.0.0"}, "and the driver 1.0.0; use one version everywhere"),
        ({"marin_exec": "99.0"}, "and the driver 99.0; use one version everywhere"),
        ({"modules": ["json", "no_such_module"]}, "module no_such_module of a step is not there"),
        ({"modules": ["no_such_package.part"]}, "module no_such_package.part of a step is not there"),
        ({"probes": "not-written"}, "is another one there: what the driver has just written is not in it"),
    ],
)
def test_look_names_what_is_wrong(expected, change, problem):
    (found,), _ = make_look()({**expected, **change})
    assert problem in found


def test_look_on_a_store_that_cannot_be_written_says_so(expected, tmp_path):
    (tmp_path / "file").write_text("")
    (found,), _ = make_look()({**expected, "prefix": str(tmp_path / "file")})
    assert "cannot be used there" in found


def test_look_at_other_code_of_the_same_version_is_a_note(expected):
    problems, (note,) = make_look()({**expected, "code": "another"})
    assert problems == [] and "differs from the driver's in some file" in note


def test_look_runs_where_this_package_is_missing(expected):
    """It is sent whole: unpickled in a process that has Ray and not this project, it names what is missing."""
    pickled = ray.cloudpickle.dumps(make_look())
    code = (
        "import sys, pickle; sys.modules['marin_exec'] = None\n"
        "from ray import cloudpickle\n"
        "print(cloudpickle.loads(bytes.fromhex(sys.argv[1]))(eval(sys.argv[2])))"
    )
    arguments = [sys.executable, "-c", code, pickled.hex(), repr(expected)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "marin_exec cannot be imported there" in done.stdout and sys.executable in done.stdout


@pytest.mark.parametrize("key", ["env_vars", "_nsight", "pips"])
def test_runtime_env_with_another_key_is_refused_with_the_list(key):
    with pytest.raises(ConfigError, match=f"runtime_env has '{key}'; allowed are working_dir, .*config"):
        Resources(runtime_env={key: {}})


def test_runtime_env_variables_have_a_place_of_their_own():
    with pytest.raises(ConfigError, match=r"Give variables as Resources\(env="):
        Resources(runtime_env={"env_vars": {"A": "b"}})


@pytest.mark.parametrize(
    "environment",
    [
        {"working_dir": "/no/such"},
        {"py_modules": ["gs://bucket/there.zip", "/no/such"]},
        {"pip": "/no/such/requirements.txt"},
        {"conda": "/no/such/environment.yml"},
    ],
)
def test_local_paths_of_a_runtime_env_must_exist(environment):
    with pytest.raises(ConfigError, match=r"'/no/such.* does not exist here"):
        check_paths(environment)


def test_names_and_uris_in_a_runtime_env_are_no_local_paths(tmp_path):
    check_paths(
        {"working_dir": "s3://bucket/code.zip", "conda": "base", "pip": ["numpy"], "py_modules": [str(tmp_path)]}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="processes are recognised by /proc")
def test_process_that_ignores_its_cancelling_is_killed_and_one_with_its_number_is_not(tmp_path):
    output, other = tmp_path / "output", tmp_path / "other"
    processes = []
    for path in (output, other):
        with open(path, "wb") as file:
            processes.append(subprocess.Popen(["sleep", "300"], stdout=file))
    try:
        mine, innocent = processes
        tasks = [
            Started("node", "host", mine.pid, str(output)),
            Started("node", "host", innocent.pid, str(tmp_path / "gone")),  # its number now belongs to another one
        ]
        assert see_gone(tasks, 0.2) == [mine.pid]
        assert mine.wait(timeout=30) == -9 and innocent.poll() is None
        assert not output.exists() and other.exists()
        assert see_gone(tasks, 0.2) == []
    finally:
        for process in processes:
            process.kill()
            process.wait(timeout=30)
