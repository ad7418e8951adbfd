"""Digests are promises: they must not differ between processes, Pythons, locales or versions of this engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PROGRAM = _ROOT / "tests/golden/identity_values.py"
_TABLE = json.loads((_ROOT / "tests/golden/identity.json").read_text())


def _digests(*python: str, **environment: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LC_", "LANG", "TZ"))}
    done = subprocess.run(
        [*python, str(_PROGRAM)],
        env={**kept, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": "/tmp/golden-pycache", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ((), {"PYTHONHASHSEED": "0"}),
        (("-O",), {"PYTHONHASHSEED": "1"}),
        ((), {"PYTHONHASHSEED": "424242", "TZ": "Pacific/Chatham", "LC_ALL": "tr_TR.UTF-8"}),
    ],
)
def test_golden_table_in_another_interpreter_is_equal(options, environment):
    assert _digests(sys.executable, *options, **environment) == _TABLE


def test_golden_values_that_travelled_to_another_process_have_the_same_digests(tmp_path):
    """As a value does that a driver sends to a worker: what interning and sharing it had, the pickle changes."""
    travelling = tmp_path / "values.pickle"
    folder = str(_PROGRAM.parent)
    send = (
        "import sys, pickle; from pathlib import Path; sys.path.append(sys.argv[1]); "
        "import identity_values as golden; "
        "Path(sys.argv[2]).write_bytes(pickle.dumps({name: build() for name, build in golden.VALUES.items()}))"
    )
    receive = (
        "import sys, json, pickle; from pathlib import Path; sys.path.append(sys.argv[1]); "
        "from marin_exec.encoding import digest_of_value; "
        "values = pickle.loads(Path(sys.argv[2]).read_bytes()); "
        "print(json.dumps({name: digest_of_value(value) for name, value in values.items()}))"
    )
    printed = []
    for seed, code in (("1", send), ("2", receive)):
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code, folder, str(travelling)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    found = json.loads(printed[1])
    assert len(found) > 80 and found == {name: _TABLE[name] for name in found}


@pytest.mark.parametrize("version", ["3.11.7", "3.13.0"])
def test_golden_table_on_another_python_is_equal(version):
    python = Path.home() / ".pyenv/versions" / version / "bin/python"
    if not python.exists():
        pytest.skip(f"Python {version} is not on this machine")
    found = _digests(str(python), "-B", PYTHONHASHSEED="7")
    assert len(found) >= 80  # all but numpy's, where that Python has no numpy
    assert found == {name: _TABLE[name] for name in found}


def test_golden_table_has_no_two_equal_digests():
    assert len(_TABLE) >= 100
    assert len(set(_TABLE.values())) == len(_TABLE)
