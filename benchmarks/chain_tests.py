"""Lines of the promise that tests show rather than figures: run here, so that one command prints them all."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator

from chain_figures import Figure, below, equal
from chain_runs import PROJECT, RUN_SECONDS

HELD = {
    "tests that fail of: reuse under runtime fields, comments and code changes; bad input; diff of two rungs": (
        "tests/chain/test_chain_reuse.py",
        "tests/chain/test_chain_bad_input.py",
        "tests/chain/test_chain_lineage.py",
    ),
    "tests that fail of: an experiment outside the repository on Ray": (
        "tests/marin_exec/test_runs_on_ray.py",
        "-k",
        "outside",
    ),
    "tests that fail of: refusals that name the field, and bad experiments, stores, steps and names": (
        "tests/marin_exec/test_encoding.py",
        "tests/marin_exec/test_coercion.py",
        "tests/marin_exec/test_runs.py",
    ),
}


def held_by_tests() -> Iterator[Figure]:
    for figure, chosen in HELD.items():
        done = _run([sys.executable, "-m", "pytest", "-q", *chosen])
        passed, failed = (
            _counted(done.stdout, "passed"),
            _counted(done.stdout, "failed") + _counted(done.stdout, "error"),
        )
        if (done.returncode and not failed) or not passed:
            raise RuntimeError(f"pytest {' '.join(chosen)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        yield equal(f"{figure} (of {passed + failed})", failed, "tests", 0)


def whole_suite() -> Iterator[Figure]:
    """Lint, format, types and all tests, as `make test` runs them."""
    began = time.monotonic()
    done = _run(["make", "test"])
    yield equal("exit code of `make test`", done.returncode, "code", 0)
    yield below("`make test`, set-up done", time.monotonic() - began, "s", 900)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)


def _counted(output: str, word: str) -> int:
    found = re.findall(rf"(\d+) {word}", output.splitlines()[-1] if output.strip() else "")
    return int(found[0]) if found else 0
