"""Makes the peers' environments: `make bench-peers-setup`. What is there already is left alone.

    python -m benchmarks.peers.setup [ENGINE ...]

An engine that cannot be installed is named, and its row is left out of the table: it says nothing about the others.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.engines import ENGINES, Engine, environment_of

INSTALL_SECONDS = 600


def make_environment(engine: Engine) -> str:
    """Makes one environment; returns why it could not be made, "" if it is there."""
    folder = environment_of(engine)
    if (folder / "installed").exists():
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    uv = str(Path(sys.executable).with_name("uv"))
    for command in (
        [uv, "venv", "-q", "--python", sys.executable, str(folder)],
        [
            uv,
            "pip",
            "install",
            "-q",
            "--compile-bytecode",
            "--python",
            str(folder / "bin/python"),
            *engine.requirements,
        ],
    ):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        except subprocess.CalledProcessError as error:
            return error.stderr.strip()[-2000:]
        except subprocess.TimeoutExpired:
            return f"not installed within {INSTALL_SECONDS} s"
    (folder / "installed").touch()
    return ""


def main(chosen: list[str]) -> None:
    unknown = set(chosen) - {engine.name for engine in ENGINES}
    if unknown:
        sys.exit(f"error: no engine is named {', '.join(sorted(unknown))}; there are {[each.name for each in ENGINES]}")
    for engine in ENGINES:
        if engine.requirements and (not chosen or engine.name in chosen):
            problem = make_environment(engine)
            print(f"{engine.name}: {problem or environment_of(engine)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
