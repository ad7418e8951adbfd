"""Where, when and with what a run was made: gathered once per run, kept in every record that the run makes."""

import getpass
import hashlib
import os
import platform
import secrets
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from marin_exec.secrets import redact, redact_tree

GIT_TIMEOUT_SECONDS = 10

# What the steps stand on; the commit has the lock that pins the whole environment.
PACKAGES = (
    "ray",
    "jax",
    "jaxlib",
    "marin-levanter",
    "numpy",
    "pyarrow",
    "fsspec",
    "tokenizers",
    "faiss-cpu",
    "scikit-learn",
)


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run of the driver."""

    run_id: str
    """Sortable by start: UTC time to the second, then hex digits: 3 of its 4096ths and 6 random ones."""
    experiment: str
    provenance: dict[str, Any]


def new_run(experiment: str, folder: Path) -> RunContext:
    """Gathers the provenance of a run that starts now.

    Args:
        experiment: path of the experiment file, as the user gave it.
        folder: a folder in the git checkout that the experiment belongs to.
    """
    now = datetime.now(UTC)
    fraction = now.microsecond * 4096 // 1_000_000
    return RunContext(
        run_id=f"{now:%Y%m%dT%H%M%S}-{fraction:03x}{secrets.token_hex(3)}",
        experiment=redact(experiment),
        provenance=redact_tree(
            {
                "experiment": experiment,
                "command_line": shlex.join(sys.argv),
                "git": git_state(folder),
                "library_git": git_state(Path(__file__).parent),
                "python": platform.python_version(),
                "platform": platform.platform(),
                "packages": dict(_versions(PACKAGES)),
                "host": socket.gethostname(),
                "user": user_name(),
                "cpu_count": os.cpu_count(),
            }
        ),
    )


def git_state(folder: Path) -> dict[str, Any]:
    """Returns commit, whether the tree differs from it and a digest of the difference; says why where there is no git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {"commit": None, "why": f"{folder} is not in a git checkout with a commit, or git is not installed"}
    diff = _git(folder, "diff", "HEAD")
    untracked = _git(folder, "ls-files", "--others", "--exclude-standard")
    if diff is None or untracked is None:
        return {
            "commit": commit.strip(),
            "dirty": None,
            "why": f"git did not say within {GIT_TIMEOUT_SECONDS} s what changed",
        }
    state: dict[str, Any] = {"commit": commit.strip(), "dirty": bool(diff.strip() or untracked.strip())}
    if state["dirty"]:
        state["diff_digest"] = hashlib.sha256(diff.encode()).hexdigest()
        state["untracked"] = untracked.split("\n")[:-1][:50]
    return state


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _versions(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


def user_name() -> str:
    """Returns who runs this process, as the system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container user without a passwd entry
        return str(os.getuid())


def code_digest(package: Path) -> str:
    """Returns a digest of the Python files of a package, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
