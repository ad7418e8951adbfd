"""Imports point one way: experiments -> steps -> marin_exec, and inside the engine from the command line down to identity."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN_IN_ENGINE = {"jax", "levanter", "faiss", "pyarrow", "steps", "experiments", "numba", "sklearn", "torch"}

# From the bottom up: a module may import from its own floor and those below, wherever in the file the import stands.
FLOORS = (
    (
        *(
            "errors",
            "fields",
            "config_values",
            "encoding",
            "coercion",
            "trees",
            "kinds",
            "resources",
            "step",
            "out",
            "identity",
        ),
        *("documents", "records", "secrets", "wording", "near_names", "ending"),
        *("source", "source_modules", "source_definitions", "source_locate"),
    ),
    ("store", "files", "provenance", "adopted"),
    (
        *(
            "planned",
            "selection",
            "pins",
            "explain",
            "half_done",
            "stored_steps",
            "draft",
            "plan",
            "lineage",
            "ancestry",
            "status",
        ),
        *("walking", "reachable", "garbage", "cleaning", "finding", "attempt_lines", "run_states", "verification"),
    ),
    ("runners",),
    ("progress", "summary", "experiment", "run_events", "run", "remake"),
    ("cli",),
)
# `main(pipeline)` stands in the file of the experiment and calls the command line; the package's face re-exports it.
UPWARDS_ON_PURPOSE = {("experiment", "cli"), ("run", "experiment")}


def imported(path: Path) -> Iterator[str]:
    """Yields the dotted name of every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they lead"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def floor_of(part: str) -> int:
    return next(n for n, floor in enumerate(FLOORS) if part in floor)


@pytest.mark.parametrize("path", modules("marin_exec"), ids=lambda path: str(path.relative_to(ROOT)))
def test_engine_knows_nothing_of_models_and_stays_on_its_floor(path):
    own = path.relative_to(ROOT / "marin_exec").parts[0].removesuffix(".py")
    for name in imported(path):
        top, _, rest = name.partition(".")
        assert top not in FORBIDDEN_IN_ENGINE, f"{path} imports {name}"
        part = rest.partition(".")[0]
        is_part = part and ((ROOT / "marin_exec" / f"{part}.py").exists() or (ROOT / "marin_exec" / part).is_dir())
        if top != "marin_exec" or not is_part or own == "__init__" or (own, part) in UPWARDS_ON_PURPOSE:
            continue
        assert floor_of(part) <= floor_of(own), f"{path} imports {name}, which stands on a floor above it"


@pytest.mark.parametrize("path", modules("steps"), ids=lambda path: str(path.relative_to(ROOT)))
def test_steps_import_no_experiment_runner_or_command_line(path):
    for name in imported(path):
        assert not name.startswith(("experiments", "marin_exec.cli", "marin_exec.runners", "tests")), f"{path}: {name}"


def test_experiments_are_short_and_do_nothing_when_they_are_imported():
    for path in modules("experiments"):
        assert len(path.read_text().splitlines()) <= 150, f"{path}: an experiment is at most 150 lines"
        for node in ast.parse(path.read_text()).body:
            calls = (
                [each for each in ast.walk(node) if isinstance(each, ast.Call)] if isinstance(node, ast.Expr) else []
            )
            assert not calls, f"{path}:{node.lineno}: an experiment calls something when it is imported"


def test_nothing_that_a_test_left_behind_is_kept_in_the_repository() -> None:
    """Of whoever starts tests at the top: a path without its folder ends up there, and goes into the next commit."""
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if found.returncode != 0:
        pytest.skip("not a git checkout")
    top = {name for line in found.stdout.splitlines() if not (name := line.partition("/")[0]).startswith(".")}
    folders = {"benchmarks", "docs", "experiments", "marin_exec", "steps", "tests"}
    files = {"CHANGELOG.md", "Makefile", "README.md", "pyproject.toml"}
    assert {name for name in top - folders - files if not name.startswith("requirements")} == set()
