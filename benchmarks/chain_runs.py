"""Runs of an experiment for benchmarks/chain.py: as a user starts them, bounded in time, killed, and side by side."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
PROGRAM = Path(sys.executable).parent / "marin-exec"
RUN_SECONDS = 2_400
READ_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Finished:
    """One process that has ended."""

    seconds: float
    stdout: str
    stderr: str


def call(command: list[str], *, timeout: float, env: dict[str, str] | None = None, cwd: Path = PROJECT) -> Finished:
    """Runs a command to its end.

    Raises:
        RuntimeError: it ended with another code than 0; the message holds the end of what it said.
        subprocess.TimeoutExpired: it took longer than `timeout` seconds.
    """
    began = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return Finished(seconds=time.monotonic() - began, stdout=done.stdout, stderr=done.stderr)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """An experiment over one store."""

    store: Path
    experiment: Path

    def command(self, verb: str, *arguments: str) -> list[str]:
        given = [str(self.experiment)] if verb in ("plan", "run", "status", "why") else []
        return [str(PROGRAM), verb, *given, *arguments, "--prefix", str(self.store)]

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Finished:
        return call(self.command("run", *arguments), timeout=RUN_SECONDS, env=env)

    def json(self, verb: str, *arguments: str) -> Any:
        return json.loads(call(self.command(verb, *arguments, "--json"), timeout=READ_SECONDS).stdout)

    def steps(self) -> dict[str, dict[str, Any]]:
        """Returns the planned steps by name."""
        return {each["name"]: each for each in self.json("plan")["steps"]}

    def record(self, digest: str) -> dict[str, Any]:
        """Returns the record of a step, by its whole digest: other runs in the store may have a step of the same name."""
        return self.json("show", digest)["record"]

    def tree(self) -> dict[str, tuple[int, int]]:
        """Returns size and modification time of all that is in the store."""
        found = ((each, each.lstat()) for each in self.store.rglob("*"))
        return {str(path.relative_to(self.store)): (stat.st_size, stat.st_mtime_ns) for path, stat in found}

    def copy_without(self, names: set[str], target: Path) -> "Runs":
        """Returns the same experiment over a copy of the store in which some of its steps were never run."""
        steps = self.steps()
        records = [self.record(steps[name]["digest"]) for name in sorted(names)]
        shutil.copytree(self.store, target, copy_function=_link_or_copy, symlinks=True)
        for record in records:
            shutil.rmtree((target / record["output_path"]).parent)
            shutil.rmtree(target / ".marin/steps" / record["digest"])
        return Runs(store=target, experiment=self.experiment)

    def pieces(self, digest: str, kind: str) -> int:
        """Returns how many shards or milestones of a step are committed."""
        return sum(1 for _ in (self.store / ".marin/steps" / digest / "pieces").glob(f"*/{kind}/*.json"))

    def attempts(self, digest: str) -> int:
        """Returns how many attempts of a step began."""
        logs = (self.store / ".marin/steps" / digest / "attempts").glob("*.jsonl")
        return len({path.name.split("-")[0] for path in logs})

    def start(self, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(
                self.command("run", *arguments), cwd=PROJECT, stdout=file, stderr=file, start_new_session=True
            )

    def killed_when(self, condition: Callable[[], bool], log: Path, *arguments: str) -> None:
        """Starts a run, and kills its driver (signal 9) as soon as the condition holds.

        Raises:
            RuntimeError: the run ended before that.
        """
        driver = self.start(log, *arguments)
        deadline = time.monotonic() + RUN_SECONDS
        try:
            while not condition():
                if driver.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"nothing to kill: the run ended or hung; it said\n{log.read_text()[-3000:]}")
                time.sleep(0.002)
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait(timeout=60)
        finally:
            _kill_session(driver)

    def two_drivers(self, log: Path) -> None:
        """Starts the same run twice at once and waits for both.

        Raises:
            RuntimeError: one of them ended with another code than 0.
        """
        drivers = [self.start(log), self.start(log)]
        try:
            codes = [driver.wait(timeout=RUN_SECONDS) for driver in drivers]
        finally:
            for driver in drivers:
                _kill_session(driver)
        if codes != [0, 0]:
            raise RuntimeError(f"two drivers at once ended with {codes}; they said\n{log.read_text()[-3000:]}")


def downstream(steps: dict[str, dict[str, Any]], name: str) -> set[str]:
    """Returns a step and all that is made from it, by the edges of a plan (which come before those who use them)."""
    digests = {steps[name]["digest"]}
    for each in steps.values():
        if digests.intersection(each["depends_on"]):
            digests.add(each["digest"])
    return {each["name"] for each in steps.values() if each["digest"] in digests}


def _link_or_copy(source: str, target: str) -> None:
    """Links: a store never writes into a file that is there. Copies where a link cannot be made."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _kill_session(driver: subprocess.Popen[bytes]) -> None:
    """Kills what a driver's local cluster has left; a driver that ended well leaves nothing."""
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    driver.wait(timeout=60)
