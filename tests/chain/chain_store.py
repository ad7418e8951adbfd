"""The small chain over one store, run as a user runs it: in processes of its own, through the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
ENTRY = """
import sys
import marin_exec.cli as cli, steps.documents as documents
print(cli.__file__, documents.__file__, file=sys.stderr)
cli.main()
"""
"""Says which checkout it is before it does what the script does."""


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A copy of the project's source; the environment it runs in is this one."""

    root: Path

    @classmethod
    def copied_to(cls, root: Path) -> "Checkout":
        """Copies what an experiment needs, as another clone of the repository has it."""
        for folder in ("marin_exec", "steps", "tests/experiments"):
            shutil.copytree(PROJECT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
        return cls(root=root)

    def edit(self, file: str, old: str, new: str) -> None:
        """Replaces the one occurrence of `old` in a source file of this copy."""
        path = self.root / file
        source = path.read_text()
        assert source.count(old) == 1, f"{file} holds {old!r} {source.count(old)} times"
        path.write_text(source.replace(old, new))


HERE = Checkout(root=PROJECT)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The small chain over the store at `prefix`, wherever that is."""

    prefix: str
    parameters: tuple[str, ...]
    checkout: Checkout = HERE
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, verb: str, *arguments: str) -> list[str]:
        experiment = [str(self.checkout.root / "tests/experiments/small_chain.py")]
        takes_experiment = verb in ("plan", "run", "status", "why")
        given = [*experiment, *arguments, *self.parameters] if takes_experiment else arguments
        return [sys.executable, "-c", ENTRY, verb, *given]

    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.checkout.root),
            "MARIN_PREFIX": self.prefix,
            "MARIN_HEARTBEAT_SECONDS": "1",
            "COLUMNS": "200",
            **self.environment,
        }

    def call(self, verb: str, *arguments: str, timeout: float = 840) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(verb, *arguments),
            env=self.env(),
            cwd=self.checkout.root,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        for module in ("marin_exec/cli/__init__.py", "steps/documents.py"):
            assert str(self.checkout.root / module) in done.stderr, "another checkout's code ran"
        return done

    def json(self, verb: str, *arguments: str) -> dict[str, Any]:
        done = self.call(verb, *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def record(self, name: str) -> dict[str, Any]:
        return self.json("show", name)["record"]

    def planned(self, *arguments: str) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.json("plan", *arguments)["steps"]}

    def start(self, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        """Starts a run (on Ray by default) in a session of its own; what it says goes to a file, so that no full pipe stops it."""
        with log.open("wb") as file:
            return subprocess.Popen(
                self.command("run", *arguments), env=self.env(), stdout=file, stderr=file, start_new_session=True
            )


class ChainStore(Chain):
    """The same on a local disk, where a test may look at files."""

    def __init__(self, *, path: Path, parameters: tuple[str, ...], **more: Any):
        super().__init__(prefix=str(path), parameters=parameters, **more)

    @property
    def path(self) -> Path:
        return Path(self.prefix)

    def output(self, record: dict[str, Any]) -> Path:
        return self.path / record["output_path"]

    def pieces(self, digest: str, kind: str) -> list[str]:
        """Returns the names of the committed pieces of a step, read as fast as can be."""
        folder = self.path / ".marin/steps" / digest / "pieces"
        return [each.name for each in folder.glob(f"*/{kind}/*.json")]

    def tree(self) -> dict[str, tuple[int, int]]:
        """Returns size and modification time of everything in the store, folders included."""
        found = sorted(self.path.rglob("*"))
        return {str(each.relative_to(self.path)): (each.lstat().st_size, each.lstat().st_mtime_ns) for each in found}

    def copied_to(self, path: Path, *, without: tuple[str, ...] = ()) -> "ChainStore":
        """Returns a store of the same content (hard links: stores never write in place), less some steps."""
        gone = [self.record(name) for name in without]
        shutil.copytree(self.path, path, copy_function=os.link, symlinks=True)
        for record in gone:
            shutil.rmtree((path / record["output_path"]).parent)
            shutil.rmtree(path / ".marin/steps" / record["digest"])
        return ChainStore(
            path=path, parameters=self.parameters, checkout=self.checkout, environment=dict(self.environment)
        )


def kill_when(
    driver: subprocess.Popen[bytes],
    condition: Callable[[], bool],
    log: Path,
    seconds: float = 600,
    pause_seconds: float = 0.002,
) -> None:
    """Kills a driver, and then what is left of its cluster, as soon as a condition holds; looks again after each pause."""
    deadline = time.monotonic() + seconds
    try:
        while not condition():
            assert driver.poll() is None, f"the run ended before it could be killed:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"nothing to kill in {seconds:.0f} s:\n{log.read_text()}"
            time.sleep(pause_seconds)
    finally:
        driver.kill()
        driver.wait(timeout=30)
        kill_session(driver)


def kill_session(driver: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing of the cluster outlived its driver
