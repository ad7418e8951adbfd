"""Running experiments as a user does, for the engine's tests."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
PROGRAM = Path(sys.executable).parent / "marin-exec"


@dataclass
class Engine:
    """One store, one trace file, and the command line over them."""

    folder: Path
    experiment: Path = EXPERIMENTS / "chain.py"
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: Path | None = None

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def trace(self) -> Path:
        return self.folder / "trace.txt"

    def ran(self) -> list[str]:
        """Returns what ran, in order, without process ids."""
        return [line.split()[0] for line in self.trace.read_text().splitlines()] if self.trace.exists() else []

    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "CHAIN_TRACE": str(self.trace),
            "MARIN_PREFIX": str(self.store),
            "MARIN_HEARTBEAT_SECONDS": "0.3",
            "COLUMNS": "200",
            **self.environment,
        }

    def command(self, verb: str, *arguments: str) -> list[str]:
        experiment = [str(self.experiment)] if verb in ("plan", "run", "status", "why") else []
        return [str(PROGRAM), verb, *experiment, *arguments]

    def call(self, verb: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(verb, *arguments),
            env=self.env(),
            cwd=self.working_directory,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def run(self, *arguments: str, backend: str = "local") -> subprocess.CompletedProcess[str]:
        return self.call("run", "--backend", backend, *arguments)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a run in a process of its own, to be killed or waited for."""
        return subprocess.Popen(
            self.command("run", *arguments),
            env=self.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def tree(self) -> dict[str, tuple[int, int]]:
        """Returns size and modification time of everything in the store."""
        return {
            str(path.relative_to(self.store)): (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in sorted(self.store.rglob("*"))
        }
