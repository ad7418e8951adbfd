"""Runs every benchmark of a package, each in a process of its own."""

import pkgutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def run_all(package: str, arguments: Sequence[str] = ()) -> int:
    """Runs the modules of a package below `benchmarks` in name order, those named with an underscore left out.

    Args:
        package: its name, e.g. "data".
        arguments: handed to each module.

    Returns:
        1 if any of them failed, else 0.
    """
    folder = Path(__file__).parent / package
    names = [each.name for each in pkgutil.iter_modules([str(folder)]) if not each.name.startswith("_")]
    began, failed = time.monotonic(), []
    for name in names:
        if subprocess.run([sys.executable, "-m", f"benchmarks.{package}.{name}", *arguments]).returncode:
            failed.append(name)
    print(f"{len(names)} benchmarks in {time.monotonic() - began:.0f} s", file=sys.stderr)
    if failed:
        print(f"a bar does not hold, or could not be measured, in: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
