"""What a command imports: start-up is most of what a run costs that finds everything done."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "ray",
    "jax",
    "numpy",
    "pyarrow",
    "fsspec",
    "gcsfs",
    "s3fs",
    "botocore",
    "google",
    "aiohttp",
    "rich",
    "draccus",
)
EXPERIMENT = """
from dataclasses import dataclass
from pathlib import Path
from marin_exec import InputPath, Out, Step

@dataclass(frozen=True)
class Config:
    text: InputPath

def write(config: None, out: Out) -> None:
    Path(out.file("text.txt")).write_text("text")

def read(config: Config, out: Out) -> int:
    return len(Path(config.text, "text.txt").read_text())

def pipeline() -> list[Step]:
    return [Step("light/read", read, Config(Step("light/write", write)))]
"""


def heavy_after(statement: str) -> list[str]:
    """Returns the heavy modules that are loaded after a statement, in a process of its own."""
    code = (
        f"import sys, json\n{statement}\nprint('\\n' + json.dumps([each for each in {HEAVY} if each in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def command(*arguments: str) -> str:
    return f"from marin_exec.cli import cli; cli({list(arguments)}, standalone_mode=False)"


@pytest.mark.parametrize("statement", ["import marin_exec", command("--help"), command("run", "--help")])
def test_package_and_help_import_nothing_heavy(statement: str) -> None:
    assert heavy_after(statement) == []


@pytest.fixture
def finished(tmp_path: Path) -> tuple[str, str]:
    """An experiment, and a store in which all of it is done."""
    experiment, store = tmp_path / "light.py", tmp_path / "store"
    experiment.write_text(EXPERIMENT)
    heavy_after(command("run", str(experiment), "--backend", "local", "--prefix", str(store)))
    return str(experiment), str(store)


@pytest.mark.parametrize("verb", ["plan", "run", "status"])
def test_verb_on_a_finished_experiment_imports_nothing_heavy(finished: tuple[str, str], verb: str) -> None:
    experiment, store = finished
    assert heavy_after(command(verb, experiment, "--prefix", store)) == []


@pytest.mark.parametrize(
    "arguments", [("ls",), ("show", "light/read"), ("lineage", "light/read"), ("lineage", "light/write", "--down")]
)
def test_verb_that_reads_a_local_store_imports_nothing_heavy(
    finished: tuple[str, str], arguments: tuple[str, ...]
) -> None:
    assert heavy_after(command(*arguments, "--prefix", finished[1])) == []
